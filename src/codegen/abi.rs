// What a kernel is given, and how it reads and writes: the beginning of every source.

/// Integers.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ints {
    pub data: *const u32,
    pub len: usize,
}

/// Numbers; written only where they are outputs or workspaces.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Reals {
    pub data: *mut f64,
    pub len: usize,
}

/// A function of this number, called back with its arguments.
pub type Callback = unsafe extern "C" fn(host: *const core::ffi::c_void, function: u32, args: *const f64) -> f64;

/// What a kernel is given.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Call {
    pub sizes: *const i64,
    pub arrays: *const Ints,
    pub buffers: *const Reals,
    pub callback: Callback,
    pub host: *const core::ffi::c_void,
}

impl Call {
    unsafe fn size(&self, k: usize) -> i64 {
        unsafe { *self.sizes.add(k) }
    }

    unsafe fn array(&self, k: usize) -> &[u32] {
        unsafe {
            let Ints { data, len } = *self.arrays.add(k);
            core::slice::from_raw_parts(data, len)
        }
    }

    unsafe fn buffer(&self, k: usize) -> &[f64] {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::slice::from_raw_parts(data, len)
        }
    }

    unsafe fn target(&self, k: usize) -> *mut f64 {
        unsafe { (*self.buffers.add(k)).data }
    }

    unsafe fn fill(&self, k: usize) {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::ptr::write_bytes(data, 0, len);
        }
    }

    #[inline(always)]
    unsafe fn apply<const K: usize>(&self, function: u32, args: [f64; K]) -> f64 {
        unsafe { (self.callback)(self.host, function, args.as_ptr()) }
    }
}

/// Keeps a loop from becoming a part of the function around it, as far as compilers go.
#[inline(never)]
fn apart(run: impl FnOnce()) {
    run();
}

#[inline(always)]
unsafe fn at(x: &[f64], k: i64) -> f64 {
    unsafe { *x.get_unchecked(k as usize) }
}

/// Loads what this nest has stored.
#[inline(always)]
unsafe fn again(x: *mut f64, k: i64) -> f64 {
    unsafe { *x.add(k as usize) }
}

#[inline(always)]
unsafe fn put(x: *mut f64, k: i64, value: f64) {
    unsafe { *x.add(k as usize) = value }
}

#[inline(always)]
unsafe fn int(x: &[u32], k: i64) -> i64 {
    unsafe { *x.get_unchecked(k as usize) as i64 }
}

/// Asks for numbers that are read some rounds later, where their places are known.
#[inline(always)]
unsafe fn soon<T>(x: &[T], places: &[u32], from: i64, count: usize) {
    const AHEAD: usize = 128;
    #[cfg(target_arch = "x86_64")]
    if let Some((next, _)) = places.get(from as usize + AHEAD..).and_then(|rest| rest.split_at_checked(count)) {
        for place in next {
            let at = x.as_ptr().wrapping_add(*place as usize);
            unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast()) };
        }
    }
}

/// The nodes below a node, none where there is no such node.
#[inline(always)]
fn segment(pointers: &[u32], at: i64) -> (i64, i64) {
    if at < 0 || at + 1 >= pointers.len() as i64 {
        return (0, 0);
    }
    unsafe { (int(pointers, at), int(pointers, at + 1)) }
}

/// The first and the last of the nodes below some nodes that are neighbours, both included.
#[inline(always)]
fn below(pointers: &[u32], from: i64, to: i64) -> (i64, i64) {
    let (from, to) = (from.max(0), to.min(pointers.len() as i64 - 2));
    if from <= to { unsafe { (int(pointers, from), int(pointers, to + 1) - 1) } } else { (0, -1) }
}

/// The first node whose coordinate is not below a key, by halving.
#[inline(always)]
unsafe fn first_from(nodes: &[u32], (from, to): (i64, i64), key: i64) -> i64 {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if unsafe { int(nodes, middle) } < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The node if it has a coordinate, else -1.
#[inline(always)]
unsafe fn with_key(nodes: &[u32], node: i64, to: i64, key: i64) -> i64 {
    if node < to && unsafe { int(nodes, node) } == key { node } else { -1 }
}

/// The node with a coordinate, -1 where there is none.
#[inline(always)]
unsafe fn find(nodes: &[u32], (from, to): (i64, i64), key: i64) -> i64 {
    unsafe { with_key(nodes, first_from(nodes, (from, to), key), to, key) }
}

/// The node with a coordinate, -1 where there is none, for coordinates that increase from one search to the next: steps double from where the
/// last one ended, so that all searches together take few more steps than there are nodes, and few where the coordinates are few.
#[inline(always)]
unsafe fn find_onwards(nodes: &[u32], from: &mut i64, to: i64, key: i64) -> i64 {
    let (mut low, mut high, mut step) = (*from, *from, 1);
    while high < to && unsafe { int(nodes, high) } < key {
        (low, high, step) = (high + 1, high + step, 2 * step);
    }
    *from = unsafe { first_from(nodes, (low, if high < to { high } else { to }), key) };
    unsafe { with_key(nodes, *from, to, key) }
}

/// A part of a range, both ends included; its length is a multiple of `grain`, but for the last.
#[inline(always)]
fn cut(from: i64, to: i64, part: i64, parts: i64, grain: i64) -> (i64, i64) {
    if parts <= 1 {
        return (from, to);
    }
    let each = (to - from + parts) / parts;
    let each = (each + grain - 1) / grain * grain;
    let start = from + part * each;
    (start, if start + each - 1 < to { start + each - 1 } else { to })
}
