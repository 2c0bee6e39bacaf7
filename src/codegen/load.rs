//! Loading compiled kernels and calling them.
//!
//! This module holds the unsafe code of the crate, but for the choice of instructions of the interpreter. Why it is sound:
//! - A library is one that [`compile`](super::compile) made of a source that [`source`](super::source) wrote, byte for byte, in a folder that
//!   only we can write to, and that no other process of ours uses. Its functions have the types declared here, which the source repeats.
//! - The functions live as long as the [`Library`](libloading::Library), which is kept beside them.
//! - A nest reads parameters and buffers of earlier nests and writes its own, by pointers alone: several of them may be one slice, of which they
//!   write different places. A [`Session`] borrows the parameters as shared slices and the
//!   others as exclusive ones until it ends, so nobody else writes or reads them meanwhile; parts of a nest write different places.
//! - Where iterations have rows of their own (`loops::Program::private_axes`), each part that runs is given memory for one (`Rows`) that no
//!   other part has until it ends.
//! - Code from outside is given slices of parameters and of buffers that the nest does not write meanwhile, and fills numbers of a workspace of its
//!   own, all of the lengths of the layout; nothing of these is read or written beside it.
//! - All places are in bounds: the lengths of buffers and arrays are those of the layout, for which the index expressions were
//!   derived; the interpreter checks the same expressions one by one, and the tests run all programs through it.
//! - A buffer is read and written as `f32` where the program stores it in single precision, and as `f64` elsewhere; a kernel compares the
//!   precision of each slice with the program before a call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use super::compile::{Library, Note, Unavailable};
use super::threads;
use crate::base::{Arena, FunctionId};
use crate::error::{self, Error};
use crate::scalar::external::{Argument, External};
use crate::scalar::{Function, Primitive, UserFunction, evaluate};
use crate::tensor::{Slice, SliceMut};

/// Integers, as the source declares them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ints {
    data: *const u32,
    len: usize,
}

/// Numbers, as the source declares them; of `f32` where the program says so.
#[derive(Clone, Copy)]
#[repr(C)]
struct Reals {
    data: *mut f64,
    len: usize,
}

/// What a kernel is given, as the source declares it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Call {
    sizes: *const i64,
    arrays: *const Ints,
    buffers: *const Reals,
    callback: unsafe extern "C" fn(*const c_void, u32, *const f64) -> f64,
    host: *const c_void,
}

/// What the functions that are called back need.
struct Host<'a> {
    functions: &'a [Function],
    users: &'a Arena<FunctionId, UserFunction>,
    /// What went wrong first in a function of tensors.
    failed: Mutex<Option<Error>>,
}

type Nest = unsafe extern "C" fn(*const Call, i64, i64);

/// A loaded library.
#[derive(Debug)]
pub struct Native {
    nests: Vec<Nest>,
    functions: Vec<Function>,
    notes: Vec<Note>,
    /// Keeps the code in memory.
    _library: libloading::Library,
}

impl Native {
    /// Loads the library of a source with so many nests, which calls back these functions.
    ///
    /// # Errors
    /// [`Unavailable::Load`].
    pub fn load(library: Library, nests: usize, functions: Vec<Function>) -> Result<Native, Unavailable> {
        let failed = |error: libloading::Error| Unavailable::Load(error.to_string());
        let notes = library.notes().to_vec();
        // SAFETY: the library was made of our own source; it has no initialisers.
        let loaded = unsafe { libloading::Library::new(library.path()) }.map_err(failed)?;
        let mut found = Vec::with_capacity(nests);
        for k in 0..nests {
            // SAFETY: the source declares `nest_k` with this type.
            let nest = unsafe { loaded.get::<Nest>(format!("nest_{k}").as_bytes()) }.map_err(failed)?;
            found.push(*nest);
        }
        Ok(Native { nests: found, functions, notes, _library: loaded })
    }

    /// What there is to say of how the library was found.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// How a nest is run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The buffers that are zero before, each with the bytes of a number of it.
    pub fills: Vec<(usize, usize)>,
    /// Into how many parts it is cut.
    pub parts: i64,
    /// The buffers of which each part that runs has a row.
    pub private: Vec<usize>,
}

/// Room for pointers, kept between calls.
#[derive(Default)]
pub struct Pointers {
    arrays: Vec<Ints>,
    buffers: Vec<Reals>,
    rows: Vec<Rows>,
}

/// Rows for a part of a nest, and the buffers that it is given.
#[derive(Default)]
struct Rows {
    memory: Vec<f64>,
    buffers: Vec<Reals>,
}

// SAFETY: the pointers are read during a session alone, by the part that has the rows then; each session sets them anew.
unsafe impl Send for Rows {}

impl Rows {
    /// Memory of so many numbers; nothing where there is none.
    fn of_len(len: usize) -> Option<Rows> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        memory.resize(len, 0.0);
        Some(Rows { memory, buffers: Vec::new() })
    }

    /// How many numbers rows of these buffers take, with what keeps those of different threads apart.
    fn len(buffers: &[Reals], private: &[usize]) -> usize {
        let lens = private.iter().filter_map(|k| buffers.get(*k)).map(|row| row.len.next_multiple_of(LINE));
        lens.sum::<usize>() + 2 * LINE
    }

    /// Is given the buffers of a call, but for these, of which it has rows itself.
    fn set(&mut self, buffers: &[Reals], private: &[usize]) {
        self.buffers.clear();
        self.buffers.extend_from_slice(buffers);
        let mut rest = self.memory.as_mut_slice();
        for k in private {
            let Some(row) = self.buffers.get_mut(*k) else { continue };
            let Some((own, others)) = rest.split_at_mut_checked(row.len.next_multiple_of(LINE)) else { break };
            row.data = own.as_mut_ptr();
            rest = others;
        }
    }
}

/// The numbers of a line of the cache.
const LINE: usize = 8;

impl std::fmt::Debug for Pointers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pointers").finish_non_exhaustive()
    }
}

// SAFETY: outside of a session the pointers are not read; each session sets them anew.
unsafe impl Send for Pointers {}

impl Pointers {
    /// Begins a call with these arrays and so many buffers, which hold nothing yet.
    pub fn session<'a>(&'a mut self, arrays: &'a [Vec<u32>], buffers: usize) -> Session<'a> {
        self.arrays.clear();
        self.arrays.extend(arrays.iter().map(|a| Ints { data: a.as_ptr(), len: a.len() }));
        self.buffers.clear();
        self.buffers.resize(buffers, Reals { data: std::ptr::NonNull::dangling().as_ptr(), len: 0 });
        Session { pointers: self, buffers: PhantomData }
    }
}

/// A call: the slices that it is given are borrowed until it ends.
pub struct Session<'a> {
    pointers: &'a mut Pointers,
    buffers: PhantomData<&'a mut [f64]>,
}

impl<'a> Session<'a> {
    /// A buffer that is read only.
    pub fn share(&mut self, buffer: usize, x: Slice<'a>) {
        if let Some(place) = self.pointers.buffers.get_mut(buffer) {
            // Never written: nests write outputs and workspaces only.
            *place = match x {
                Slice::Double(x) => Reals { data: x.as_ptr().cast_mut(), len: x.len() },
                Slice::Single(x) => Reals { data: x.as_ptr().cast_mut().cast(), len: x.len() },
            };
        }
    }

    /// A buffer that a nest writes.
    pub fn lend(&mut self, buffer: usize, x: SliceMut<'a>) {
        if let Some(place) = self.pointers.buffers.get_mut(buffer) {
            *place = match x {
                SliceMut::Double(x) => Reals { data: x.as_mut_ptr(), len: x.len() },
                SliceMut::Single(x) => Reals { data: x.as_mut_ptr().cast(), len: x.len() },
            };
        }
    }

    /// Another buffer for what was lent already: the nests that write them write different places.
    pub fn lend_again(&mut self, lent: usize, buffer: usize) {
        let known = self.pointers.buffers.get(lent).copied();
        if let (Some(known), Some(place)) = (known, self.pointers.buffers.get_mut(buffer)) {
            *place = known;
        }
    }

    /// Runs all nests in order. Code from outside that fails ends the run behind its nest. Buffers and arrays have the lengths of the layout that the program was bound to, and buffers the precision that
    /// it says.
    ///
    /// # Errors
    /// [`Error::Request`] where code from outside panics.
    pub fn run(
        self,
        native: &Native,
        sizes: &[i64],
        users: &Arena<FunctionId, UserFunction>,
        steps: &[Step],
    ) -> error::Result<()> {
        let host = Host { functions: &native.functions, users, failed: Mutex::new(None) };
        let call = Call {
            sizes: sizes.as_ptr(),
            arrays: self.pointers.arrays.as_ptr(),
            buffers: self.pointers.buffers.as_ptr(),
            callback,
            host: (&raw const host).cast(),
        };
        let shared = &call;
        for (nest, step) in native.nests.iter().zip(steps) {
            for (buffer, bytes) in &step.fills {
                if let Some(Reals { data, len }) = self.pointers.buffers.get(*buffer) {
                    // SAFETY: the buffer was lent, since a nest writes it, with numbers of so many bytes.
                    unsafe { std::ptr::write_bytes(data.cast::<u8>(), 0, *len * *bytes) };
                }
            }
            // SAFETY: see the head of this module; parts write different places.
            let run = |part: i64| unsafe { nest(std::ptr::from_ref(shared), part, step.parts) };
            match step.parts {
                ..=1 => run(0),
                parts if step.private.is_empty() => threads::for_each(parts, run),
                _ => in_rows(*nest, shared, step, &self.pointers.buffers, &mut self.pointers.rows),
            }
            if let Some(error) = host.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Runs the parts of a nest, each with rows that no other one has meanwhile: as many threads as there is memory for. What is `kept` is there for the
/// next call, which then asks for no memory.
fn in_rows(nest: Nest, call: &Call, step: &Step, buffers: &[Reals], kept: &mut Vec<Rows>) {
    let len = Rows::len(buffers, &step.private);
    // SAFETY: see the head of this module; parts write different places, and what is lent is a row.
    let run = |call: &Call, part: i64| unsafe { nest(std::ptr::from_ref(call), part, step.parts) };
    let alone = || (0..step.parts).for_each(|part| run(call, part));
    let threads = threads::count().min(usize::try_from(step.parts).unwrap_or(1));
    if threads == 1 {
        return alone();
    }
    kept.retain(|rows| rows.memory.len() >= len);
    while kept.len() < threads {
        let Some(rows) = Rows::of_len(len) else { return alone() };
        kept.push(rows);
    }
    kept.iter_mut().for_each(|rows| rows.set(buffers, &step.private));
    let free = Mutex::new(std::mem::take(kept));
    let free_now = || free.lock().unwrap_or_else(PoisonError::into_inner);
    threads::for_each(step.parts, |part| {
        let found = free_now().pop();
        // A function that is called back may run another part in between, on the same thread.
        let rows = found.unwrap_or_else(|| {
            let mut rows = Rows { memory: vec![0.0; len], buffers: Vec::new() };
            rows.set(buffers, &step.private);
            rows
        });
        run(&Call { buffers: rows.buffers.as_ptr(), ..*call }, part);
        free_now().push(rows);
    });
    *kept = free.into_inner().unwrap_or_else(PoisonError::into_inner);
}

// SAFETY: the parts of a nest read the same slices and write different places of one.
unsafe impl Sync for Call {}
// SAFETY: likewise; rows that parts have of their own are in what each is given.
unsafe impl Sync for Reals {}

/// The value of a function that the source calls back; NaN where it panics.
unsafe extern "C" fn callback(host: *const c_void, function: u32, args: *const f64) -> f64 {
    // SAFETY: `host` is what `run` passed, and outlives the call.
    let host = unsafe { &*host.cast::<Host<'_>>() };
    let Some(function) = host.functions.get(function as usize) else { return f64::NAN };
    let (Function::Value(primitive) | Function::Partial(primitive, _)) = *function;
    if let Primitive::User(id) = primitive
        && let Some((name, external)) = host.users.get(id).and_then(|f| Some((f.name(), f.of_tensors()?)))
    {
        // SAFETY: for a function of tensors the source passes words, as `Emitter::words` writes them.
        if let Err(error) = unsafe { call_outside(name, external, args.cast()) } {
            host.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        return 0.0;
    }
    let arity = match primitive {
        Primitive::Op(op) => op.arity(),
        Primitive::User(id) => host.users.get(id).map_or(0, UserFunction::arity),
    };
    // SAFETY: the source passes an array of as many arguments as the function takes.
    let args = unsafe { std::slice::from_raw_parts(args, usize::from(arity)) };
    let value = || evaluate(*function, host.users, args);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(value)).unwrap_or(f64::NAN)
}

/// Calls a function of tensors: for each tensor that it takes, and then for each that it gives, there are a pointer and the lengths of its axes.
///
/// # Safety
/// There are numbers in memory of all these lengths; those that it gives are nobody else's.
unsafe fn call_outside(name: &str, external: &External, words: *const u64) -> error::Result<()> {
    let mut at = 0;
    let mut next = || {
        at += 1;
        // SAFETY: there is a word for each tensor and each of its axes.
        unsafe { *words.add(at - 1) as usize }
    };
    let mut tensor = |rank: usize| {
        let first = next();
        let shape: Vec<usize> = (0..rank).map(|_| next()).collect();
        (first, shape)
    };
    let given: Vec<_> = external.params.iter().map(|(_, dims)| tensor(dims.len())).collect();
    let filled: Vec<_> = external.results.iter().map(|dims| tensor(dims.len())).collect();
    // SAFETY: the caller says so; a slice of no numbers may begin anywhere but at 0, where no buffer does.
    let args: Vec<Argument<'_>> = given
        .iter()
        .map(|(first, shape)| {
            let numbers = unsafe { std::slice::from_raw_parts(*first as *const f64, shape.iter().product()) };
            Argument::new(numbers, shape)
        })
        .collect();
    let mut results: Vec<&mut [f64]> = filled
        .iter()
        // SAFETY: likewise.
        .map(|(first, shape)| unsafe { std::slice::from_raw_parts_mut(*first as *mut f64, shape.iter().product()) })
        .collect();
    results.iter_mut().for_each(|numbers| numbers.fill(0.0));
    external.call(name, &args, &mut results)
}
