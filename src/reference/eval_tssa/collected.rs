//! The elements of a tensor while a statement computes them, in the order of their places.

use std::cmp::Ordering;

use super::tensors::Data;
use super::{DENSE_VOLUME, PASS};
use crate::error::{Error, Result};
use crate::reference::environment::{Limits, box_volume};
use crate::reference::numeric::Numeric;

/// How many points there are for each place.
#[derive(Clone, Copy)]
pub(super) enum Places {
    /// One at most.
    Single,
    /// Any number, which are added up.
    Summed,
}

/// Elements in the order of their places.
pub(super) struct Collected<T> {
    keys: Vec<u128>,
    values: Vec<T>,
}

impl<T: Numeric> Collected<T> {
    pub(super) fn new() -> Self {
        Collected { keys: Vec::new(), values: Vec::new() }
    }

    /// A place behind the last one.
    pub(super) fn push(&mut self, key: u128, x: T, limits: &Limits) -> Result<()> {
        self.keys.push(key);
        self.values.push(x);
        limits.elements(self.keys.len() as u128)
    }

    /// Adds to the last place, or begins a later one with 0.
    pub(super) fn accumulate(&mut self, key: u128, x: T, limits: &Limits) -> Result<()> {
        match (self.keys.last(), self.values.last_mut()) {
            (Some(last), Some(sum)) if *last == key => *sum = sum.add(&x),
            _ => self.push(key, T::zero().add(&x), limits)?,
        }
        Ok(())
    }

    /// `[p] * X + [q] * Y` from the parts where `p` and where `q` hold. Where one of them fails its side is 0, which is added.
    pub(super) fn merge(self, other: Collected<T>, limits: &Limits) -> Result<Collected<T>> {
        let mut sum = Collected::new();
        let mut left = self.keys.into_iter().zip(self.values).peekable();
        let mut right = other.keys.into_iter().zip(other.values).peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(sum),
            };
            let x = if order.is_le() { left.next() } else { None };
            let y = if order.is_ge() { right.next() } else { None };
            match (x, y) {
                (Some((key, x)), Some((_, y))) => sum.push(key, x.add(&y), limits)?,
                (Some((key, x)), None) | (None, Some((key, x))) => sum.push(key, x.add(&T::zero()), limits)?,
                (None, None) => return Ok(sum),
            }
        }
    }

    pub(super) fn into_data<'a>(self, dims: &[u64], limits: &Limits) -> Result<Data<'a, T>> {
        let volume = box_volume(dims)?;
        if volume == self.keys.len() as u128 {
            return Ok(Data::Dense(self.values));
        }
        if volume > u128::from(DENSE_VOLUME) {
            return Ok(Data::Points { keys: self.keys, values: self.values });
        }
        limits.elements(volume)?;
        let mut dense = vec![T::zero(); volume as usize];
        for (key, x) in self.keys.into_iter().zip(self.values) {
            match dense.get_mut(key as usize) {
                Some(element) => *element = x,
                None => return Err(Error::bug(PASS, "an element outside its tensor")),
            }
        }
        Ok(Data::Dense(dense))
    }
}
