//! Fits a blur kernel by gradient descent, with a loss and a gradient that were compiled ahead of time.

/// The kernel that `build.rs` wrote. It needs `core` alone.
#[allow(clippy::all, dead_code, non_snake_case, unused)]
mod kernel {
    include!(concat!(env!("OUT_DIR"), "/kernel.rs"));
}

/// The loss and its gradient for given sizes, with memory for what is computed on the way.
struct Loss {
    sizes: [i64; kernel::SIZES.len()],
    buffers: Vec<Vec<f64>>,
}

/// No function is called back.
unsafe extern "C" fn nothing(_: *const core::ffi::c_void, _: u32, _: *const f64) -> f64 {
    f64::NAN
}

fn place(name: &str) -> usize {
    kernel::BUFFERS.iter().position(|buffer| *buffer == name).expect("a buffer of the kernel")
}

impl Loss {
    fn new(n: usize, m: usize) -> Loss {
        let sizes = kernel::SIZES.map(|name| if name == "n" { n as i64 } else { m as i64 });
        let buffers = kernel::lengths(&sizes, &[]).iter().map(|len| vec![0.0; *len]).collect();
        Loss { sizes, buffers }
    }

    fn set(&mut self, name: &str, data: &[f64]) {
        self.buffers[place(name)].copy_from_slice(data);
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.buffers[place(name)]
    }

    fn run(&mut self) {
        let places: Vec<kernel::Reals> =
            self.buffers.iter_mut().map(|x| kernel::Reals { data: x.as_mut_ptr(), len: x.len() }).collect();
        let call = kernel::Call {
            sizes: self.sizes.as_ptr(),
            arrays: std::ptr::null(),
            buffers: places.as_ptr(),
            callback: nothing,
            host: std::ptr::null(),
        };
        // SAFETY: the buffers have the lengths that the kernel says, do not overlap, and it reads no arrays.
        unsafe { kernel::run(&call) }
    }
}

fn main() {
    let (n, m) = (200, 5);
    let blur = [0.1, 0.2, 0.4, 0.2, 0.1];
    let x: Vec<f64> = (0..n + m - 1).map(|k| (k * k * 7 % 11) as f64 / 5.0 - 1.0).collect();
    let z: Vec<f64> = (0..n).map(|i| (0..m).map(|j| x[i + m - 1 - j] * blur[j]).sum()).collect();
    let mut loss = Loss::new(n, m);
    loss.set("x", &x);
    loss.set("z", &z);
    let mut w = vec![0.2; m];
    for _ in 0..2000 {
        loss.set("w", &w);
        loss.run();
        w.iter_mut().zip(loss.get("grad_w")).for_each(|(w, slope)| *w -= 5e-4 * slope);
    }
    let error = w.iter().zip(blur).map(|(w, b)| (w - b).abs()).fold(0.0, f64::max);
    println!("loss {:.1e}, largest error of w {error:.1e}", loss.get("value")[0]);
    assert!(error < 1e-3, "it does not converge: {w:?}");
}
