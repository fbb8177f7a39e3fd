//! Every kernel as compiled by AMD's compiler in Mesa for two generations of GPUs, neither of which needs to be present. No register is
//! spilled to memory, and a byte of weights costs a bounded number of instructions. The table of benches/README.md:
//!
//!     cargo test --release --test amd -- --nocapture | grep -v '^test\|^running\|^$'
//!
//! With FORETOKEN_AMD=all every kernel is compiled and must not spill.

#![cfg(target_os = "linux")]

mod radv;
mod report;

use foretoken::Arithmetic;
use foretoken::internals::gpu::{Kernel, Subnormals};
use foretoken::internals::weights::{Affine, Dtype, Float, Format};
use radv::Compiler;
use report::Report;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// RDNA2 and RDNA3, by Mesa's names.
const FAMILIES: [&str; 2] = ["navi21", "gfx1100"];
/// Bytes of workgroup memory that allow several workgroups on a compute unit.
const WORKGROUP: u64 = 10_752;
/// Waves per SIMD that the registers must allow, so that some compute while others wait for memory.
const WAVES: u64 = 8;
/// Prefix of the child's answer.
const ANSWER: &str = "REPORTS ";

/// Returns the types whose instructions are counted. The kernels of all types must not spill.
fn counted() -> [(&'static str, Dtype); 9] {
    let affine = |bits| Dtype::Affine(Affine { bits, group_size: 64, scales: Float::Bf16 });
    [
        ("f16", Dtype::F16),
        ("bf16", Dtype::Bf16),
        ("Q4_0", Dtype::Q4_0),
        ("Q4_1", Dtype::Q4_1),
        ("Q8_0", Dtype::Q8_0),
        ("Q4_K", Dtype::Q4K),
        ("Q6_K", Dtype::Q6K),
        ("MLX 4 bits", affine(4)),
        ("MLX 8 bits", affine(8)),
    ]
}

/// The kind of a matmul, regardless of its epilogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Rows(u32),
    Tile,
}

type Matmul = (Format, Arithmetic, Way);

fn matmul(kernel: Kernel) -> Option<Matmul> {
    match kernel {
        Kernel::MatmulRows(format, arithmetic, rows, _) => Some((format, arithmetic, Way::Rows(rows))),
        Kernel::MatmulTile(format, arithmetic, _) => Some((format, arithmetic, Way::Tile)),
        _ => None,
    }
}

/// Returns the bytes of weights that a thread reads per iteration: a chunk of each of four rows, with its scales.
fn bytes(format: Format) -> f64 {
    let row = format.row(4096);
    4.0 * row.bytes() as f64 / row.chunks as f64
}

/// Bounds the instructions of an iteration: all of them for f16; for quantised weights, those that every lane executes, per byte.
fn check_instructions(
    family: &str,
    format: Format,
    arithmetic: Arithmetic,
    rows: u32,
    report: &Report,
) -> Option<String> {
    let bound =
        |bounds: &[(u32, f64)]| bounds.iter().find(|bound| bound.0 == rows).map_or(f64::INFINITY, |bound| bound.1);
    let (count, most) = match format {
        Format::Float(Float::F16) if family == "navi21" => {
            (report.inner.all as f64, bound(&[(1, 75.0), (8, 340.0), (16, 650.0)]))
        }
        Format::Float(_) => return None,
        Format::Quantised { .. } => {
            let most = match arithmetic {
                Arithmetic::F32 => bound(&[(1, 7.5), (8, 22.0)]),
                _ => bound(&[(1, 2.0), (8, 7.6)]),
            };
            (report.inner.vector as f64 / bytes(format), most)
        }
    };
    let what = || {
        format!("{family}: {format:?} by {arithmetic:?}, {rows} rows: {count} instructions, at most {most}: {report:?}")
    };
    (count > most).then(what)
}

/// Returns the kernels to compile: all; or each matmul of the counted types once, every epilogue of the one that needs most
/// registers, and all other kernels except those for embedding types other than f16.
fn kernels(all: bool) -> Vec<Kernel> {
    let counted: HashSet<_> = counted().into_iter().map(|(_, dtype)| Format::of_dtype(dtype)).collect();
    let f16 = Format::Float(Float::F16);
    let mut seen = HashSet::new();
    let mut is_wanted = |kernel: &Kernel| match (matmul(*kernel), kernel) {
        (Some(matmul), _) if matmul == (f16, Arithmetic::F32, Way::Rows(16)) => true,
        (Some(matmul), _) => counted.contains(&matmul.0) && seen.insert(matmul),
        (None, Kernel::Embed(format) | Kernel::Fill(format)) => *format == f16,
        // Only used on CPUs.
        (None, Kernel::MatmulSerial(..)) => false,
        (None, _) => true,
    };
    Kernel::all().into_iter().filter(|kernel| all || is_wanted(kernel)).collect()
}

/// Returns the Vulkan loader's file for Mesa's AMD driver.
fn driver() -> Option<PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_radv =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("radeon_icd"));
    files.map(|entry| entry.path()).find(is_radv)
}

/// The child process: reads kernels in WGSL from its standard input and writes its answer to its standard output. It is a separate
/// process because the driver takes the GPU to compile for from the environment.
#[test]
fn compile_what_the_parent_asks_for() {
    if std::env::var_os("RADV_FORCE_FAMILY").is_none() {
        return;
    }
    let mut asked = String::new();
    std::io::stdin().read_to_string(&mut asked).unwrap();
    let sources: Vec<String> = serde_json::from_str(&asked).unwrap();
    let compiler = Compiler::new().unwrap();
    let reports: Vec<_> = sources.iter().map(|source| Report::of(&compiler.compile(source).unwrap())).collect();
    println!("\n{ANSWER}{}", serde_json::to_string(&reports).unwrap());
}

fn compile(driver: &Path, family: &str, sources: &[String]) -> Vec<Report> {
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

/// Returns a matmul's line of the table. The loop of a tile goes over parts of chunks.
fn line(name: &str, (format, arithmetic, way): Matmul, report: &Report) -> String {
    let Report { registers, waves, workgroup, inner, .. } = report;
    let share = 100.0 * inner.products() as f64 / inner.vector as f64;
    let per_byte = match way {
        Way::Rows(_) => format!("{:.1}", inner.vector as f64 / bytes(format)),
        Way::Tile => "-".into(),
    };
    format!(
        "{name:<11} {:<5} {:<8} {:>7} {per_byte:>9} {share:>8.0} % {registers:>10} {waves:>6} {workgroup:>10}",
        format!("{arithmetic:?}").to_lowercase(),
        format!("{way:?}"),
        inner.all,
    )
}

#[test]
fn no_kernel_spills_and_a_byte_of_weights_costs_few_instructions() {
    let Some(driver) = driver() else {
        println!("skipped: Mesa's driver for AMD (radeon_icd) is not installed, so nothing here compiles for AMD");
        return;
    };
    let kernels = kernels(std::env::var("FORETOKEN_AMD").is_ok_and(|what| what == "all"));
    let sources: Vec<_> = kernels.iter().map(|kernel| kernel.source(Subnormals::Kept)).collect();
    for family in FAMILIES {
        let reports = compile(&driver, family, &sources);
        println!("{family:<26} in loop  per byte   products  registers  waves  workgroup");
        let (mut told, mut failed) = (HashSet::new(), Vec::new());
        for (kernel, report) in kernels.iter().zip(&reports) {
            assert_eq!(report.spilled, 0, "{family}: {kernel:?} spills: {report:?}");
            assert!(report.workgroup <= WORKGROUP, "{family}: {kernel:?}: {report:?}");
            let Some(matmul) = matmul(*kernel) else { continue };
            let (format, arithmetic, way) = matmul;
            let counted = counted().into_iter().find(|(_, dtype)| Format::of_dtype(*dtype) == format);
            let Some((name, _)) = counted else { continue };
            match way {
                Way::Rows(rows) => failed.extend(check_instructions(family, format, arithmetic, rows, report)),
                // Integer sums must also be scaled.
                Way::Tile => {
                    let share = report.inner.products() as f64 / report.inner.vector as f64;
                    let least = if arithmetic == Arithmetic::F32 { 0.6 } else { 0.5 };
                    assert!(share >= least, "{family}: {kernel:?}: {share}: {report:?}");
                }
            }
            assert!(report.waves >= WAVES, "{family}: {kernel:?}: {report:?}");
            if told.insert(matmul) {
                println!("{}", line(name, matmul, report));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }
}
