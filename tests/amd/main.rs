//! Every kernel as AMD's compiler in Mesa makes it for two generations of GPUs, neither of which need be here: no
//! registers in memory, and at most so many instructions per byte of weights. The table for benches/README.md:
//!
//!     FORETOKEN_AMD=all cargo test --release --test amd -- --nocapture

#![cfg(target_os = "linux")]

mod radv;
mod report;

use foretoken::gpu::{Epilogue, Kernel, Subnormals};
use foretoken::weights::Format;
use radv::Compiler;
use report::Report;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// RDNA2 and RDNA3, as Mesa calls them.
const FAMILIES: [&str; 2] = ["navi21", "gfx1100"];
/// What stands before the child's answer.
const ANSWER: &str = "REPORTS ";

/// Where Mesa's driver for AMD is announced to the Vulkan loader.
fn driver() -> Option<PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_radv = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("radeon_icd"));
    files.map(|entry| entry.path()).find(is_radv)
}

/// The child's half: kernels in WGSL on its standard input, its answer on its standard output. It is a process of its own
/// because the driver learns from the environment which GPU it compiles for.
#[test]
fn compile_what_the_parent_asks_for() {
    if std::env::var_os("RADV_FORCE_FAMILY").is_none() {
        return;
    }
    let mut asked = String::new();
    std::io::stdin().read_to_string(&mut asked).unwrap();
    let sources: Vec<String> = serde_json::from_str(&asked).unwrap();
    let compiler = Compiler::new().unwrap();
    let reports: Vec<_> = sources
        .iter()
        .map(|source| {
            let compiled = compiler.compile(source).unwrap();
            if let Some(file) = std::env::var_os("FORETOKEN_ASSEMBLY") {
                std::fs::write(file, &compiled.assembly).unwrap();
            }
            Report::of(&compiled)
        })
        .collect();
    println!("\n{ANSWER}{}", serde_json::to_string(&reports).unwrap());
}

fn compile(driver: &PathBuf, family: &str, sources: &[String]) -> Vec<Report> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "compile_what_the_parent_asks_for", "--nocapture"])
        .env("VK_ICD_FILENAMES", driver)
        .env("VK_DRIVER_FILES", driver)
        .env("RADV_FORCE_FAMILY", family)
        .env("RADV_DEBUG", "nocache")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(serde_json::to_string(sources).unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.lines().find_map(|line| line.strip_prefix(ANSWER));
    serde_json::from_str(answer.unwrap_or_else(|| panic!("{family}: {text}"))).unwrap()
}

#[test]
fn kernels() {
    let Some(driver) = driver() else {
        println!("skipped: Mesa's driver for AMD (radeon_icd) is not installed, so nothing here compiles for AMD");
        return;
    };
    let kernels: Vec<_> = Kernel::all().into_iter().filter(|kernel| matches!(kernel, Kernel::MatmulRows(Format::Float(_), _, Epilogue::Store) | Kernel::MatmulTile(Format::Float(_), Epilogue::Store))).collect();
    let sources: Vec<_> = kernels.iter().map(|kernel| kernel.source(Subnormals::Kept)).collect();
    for family in FAMILIES {
        for (kernel, report) in kernels.iter().zip(compile(&driver, family, &sources)) {
            println!("{family} {kernel:?} {report:?}");
        }
    }
}
