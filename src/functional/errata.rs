#![doc = include_str!("errata.md")]

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use crate::error::{Error, Result};
    use crate::functional::efficient::{Stage, differentiate};
    use crate::functional::lambda::{Builder, Value, parse};

    /// `D[t ! s]` as printed takes the integer of `D[s]` for the array.
    #[test]
    fn an_index_binds_the_derivative_of_its_array() -> Result<()> {
        let mut b = Builder::new();
        let real = b.types().real();
        let array = b.types().array(real);
        let a = b.param("a", array);
        let (of_s, again, of_t) = (b.int(0)?, b.int(0)?, b.var(a));
        assert!(matches!(b.index(of_s, again), Err(Error::Request(_))), "as printed");
        let index = b.int(0)?;
        assert!(b.index(of_t, index).is_ok(), "as meant");
        Ok(())
    }

    /// What is owed to the elements of a reduced array is a bag of places and elements.
    #[test]
    fn a_reduction_ends_in_pairs_of_place_and_element() -> Result<()> {
        let program = parse("param a : [real]\nreduce x, y in a. x * y")?;
        let derivative = differentiate(&program, Stage::Array)?;
        let run = derivative.run(&[Value::reals([2.0, 3.0, 4.0])], &Value::Real(1.0))?;
        for (k, expected) in [12.0, 8.0, 6.0].into_iter().enumerate() {
            let unit = Value::reals((0..3).map(|j| if j == k { 1.0 } else { 0.0 }));
            assert_eq!(crate::functional::lambda::pairing(&unit, &run.cotangents[0])?, expected);
        }
        Ok(())
    }

    /// The cells of Appendix E: a vector that is shared, and how many cells the environment has.
    #[derive(Clone)]
    struct Cells {
        slots: Rc<std::cell::RefCell<Vec<Rc<Cell<f64>>>>>,
        len: usize,
    }

    impl Cells {
        /// The beginning of `scope`: the new cell is written at the length.
        fn enter(&self) -> (Cells, Rc<Cell<f64>>) {
            let cell = Rc::new(Cell::new(0.0));
            let mut slots = self.slots.borrow_mut();
            match slots.get_mut(self.len) {
                Some(slot) => *slot = cell.clone(),
                None => slots.push(cell.clone()),
            }
            (Cells { slots: self.slots.clone(), len: self.len + 1 }, cell)
        }

        fn add(&self, at: usize, x: f64) {
            let slots = self.slots.borrow();
            slots[at].set(slots[at].get() + x);
        }
    }

    /// Two branches, in turn: both enter a scope, both add to the cell of theirs, both read their cell.
    #[test]
    fn branches_that_share_slots_mix_their_cells() {
        let run = |shared: bool| {
            let cells = || Cells { slots: Rc::default(), len: 0 };
            let first = cells();
            let second = if shared { first.clone() } else { cells() };
            let ((y, y_cell), (z, z_cell)) = (first.enter(), second.enter());
            y.add(0, 5.0);
            z.add(0, 7.0);
            (y_cell.get(), z_cell.get())
        };
        assert_eq!(run(true), (0.0, 12.0), "as printed");
        assert_eq!(run(false), (5.0, 7.0), "as meant");
    }
}
