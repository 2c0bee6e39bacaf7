//! Which processor this is, for libraries in a cache that several machines share: `-Ctarget-cpu=native` makes code for its model, and for each
//! of its features.

use std::sync::OnceLock;

/// What the compiler may know of the processor, as text that is the same at each time.
pub fn identity() -> &'static str {
    static KNOWN: OnceLock<String> = OnceLock::new();
    KNOWN.get_or_init(ask)
}

#[cfg(target_arch = "x86_64")]
fn ask() -> String {
    use raw_cpuid::native_cpuid::cpuid_count;
    let mut text = String::new();
    // Vendor and how far leaves go; then model, features of several generations, what the system has switched on, vector lengths.
    let first = cpuid_count(0, 0);
    let extended = cpuid_count(0x8000_0000, 0);
    text.push_str(&format!("{first:x?}"));
    for leaf in [1, 7, 0xd, 0x14, 0x19, 0x1e, 0x24, 0x8000_0001, 0x8000_0007, 0x8000_0008, 0x8000_0021] {
        let last = if leaf < 0x8000_0000 { first.eax } else { extended.eax };
        for sub in 0..=u32::from(matches!(leaf, 7 | 0xd)) {
            if leaf <= last {
                let mut found = cpuid_count(leaf, sub);
                if matches!((leaf, sub), (1, 0) | (0xd, 1)) {
                    // Which of its cores this is; how much the system saves for what runs at the moment.
                    found.ebx = 0;
                }
                text.push_str(&format!("{leaf:x}.{sub}{found:x?}"));
            }
        }
    }
    text
}

#[cfg(not(target_arch = "x86_64"))]
fn ask() -> String {
    // Linux says what the processors are that there are; elsewhere machines of one architecture are taken for alike.
    let found = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let changes = |line: &str| {
        let line = line.to_ascii_lowercase();
        ["mhz", "clock", "bogomips", "timebase"].iter().any(|word| line.contains(word))
    };
    let lines: std::collections::BTreeSet<&str> = found.lines().filter(|line| !changes(line)).collect();
    format!("{} {} {lines:?}", std::env::consts::ARCH, std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::ask;

    #[test]
    fn it_is_the_same_on_all_cores() {
        let threads: Vec<_> = (0..16).map(|_| std::thread::spawn(ask)).collect();
        let expected = ask();
        assert!(!expected.is_empty());
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("it ends"), expected));
    }
}
