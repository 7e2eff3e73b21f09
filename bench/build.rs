//! Notes the compiler that built the program, for the description of the machine.

use std::process::Command;

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map_or_else(|_| Vec::new(), |output| output.stdout);
    println!(
        "cargo::rustc-env=COMPILER={}",
        String::from_utf8_lossy(&version).trim()
    );
    println!("cargo::rerun-if-changed=build.rs");
}
