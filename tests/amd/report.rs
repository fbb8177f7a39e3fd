//! The cost of a compiled kernel, from the driver's statistics and counted in its instructions.

use super::radv::Compiled;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::AddAssign;

/// Costs of a kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Vector registers.
    pub registers: u64,
    /// Registers, vector or scalar, that were spilled to memory.
    pub spilled: u64,
    /// Bytes of workgroup memory.
    pub workgroup: u64,
    /// Waves that a SIMD can hold.
    pub waves: u64,
    /// Counts of the innermost loop with the most products.
    pub inner: Counts,
}

/// Instructions by kind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All instructions.
    pub all: u64,
    /// Instructions that each lane executes: arithmetic, memory, workgroup memory.
    pub vector: u64,
    /// Multiply-adds among the vector instructions.
    pub multiply_adds: u64,
    /// Dot products among the vector instructions.
    pub dots: u64,
    /// Loads from memory among the vector instructions.
    pub loads: u64,
    /// 16-byte loads among the loads.
    pub wide_loads: u64,
    /// Accesses of workgroup memory among the vector instructions.
    pub shared: u64,
}

impl Counts {
    fn of(op: &str) -> Self {
        let is_load = ["buffer_load", "global_load"].iter().any(|start| op.starts_with(start));
        let is_store = ["buffer_store", "global_store"].iter().any(|start| op.starts_with(start));
        let is_shared = op.starts_with("ds_");
        let base = op.trim_start_matches("v_").trim_start_matches("pk_").trim_start_matches("dual_");
        let is_multiply_add =
            op.starts_with("v_") && ["fma", "mad_f", "mac_f"].iter().any(|start| base.starts_with(start));
        Self {
            all: 1,
            vector: u64::from(op.starts_with("v_") || is_load || is_store || is_shared),
            multiply_adds: u64::from(is_multiply_add),
            dots: u64::from(op.starts_with("v_dot")),
            loads: u64::from(is_load),
            wide_loads: u64::from(is_load && (op.ends_with("dwordx4") || op.ends_with("b128"))),
            shared: u64::from(is_shared),
        }
    }
}

impl Counts {
    /// Counts multiply-adds, and dot products of four codes.
    pub fn products(self) -> u64 {
        self.multiply_adds + self.dots
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.vector += other.vector;
        self.multiply_adds += other.multiply_adds;
        self.dots += other.dots;
        self.loads += other.loads;
        self.wide_loads += other.wide_loads;
        self.shared += other.shared;
    }
}

impl Report {
    pub fn of(compiled: &Compiled) -> Self {
        let value = |name: &str| *compiled.statistics.get(name).unwrap_or_else(|| panic!("no {name:?}"));
        Self {
            registers: value("VGPRs"),
            spilled: value("Spilled VGPRs") + value("Spilled SGPRs"),
            workgroup: value("LDS size"),
            waves: value("Subgroups per SIMD"),
            inner: inner_loop(&compiled.assembly),
        }
    }
}

/// An operation and the label that it may jump to.
type Instruction<'a> = (&'a str, Option<&'a str>);

/// Returns the instructions, and the places of the labels.
fn parse(assembly: &str) -> (Vec<Instruction<'_>>, HashMap<&str, usize>) {
    let (mut instructions, mut labels) = (Vec::new(), HashMap::new());
    for line in assembly.lines() {
        let is_label =
            |word: &str| word.len() > 2 && word.starts_with("BB") && word[2..].bytes().all(|b| b.is_ascii_digit());
        if let Some(label) = line.trim().strip_suffix(':').filter(|word| is_label(word)) {
            labels.insert(label, instructions.len());
        } else if line.starts_with('\t') {
            let code = line.split(';').next().unwrap_or_default();
            let mut words = code.split_whitespace();
            if let Some(op) = words.next() {
                instructions.push((op, words.find(|word| is_label(word)).filter(|_| op.contains("branch"))));
            }
        }
    }
    (instructions, labels)
}

/// Returns the counts of the innermost loop with the most products, from the target of a backward jump to the jump.
fn inner_loop(assembly: &str) -> Counts {
    let (instructions, labels) = parse(assembly);
    let back = |(at, (_, target)): (usize, &Instruction<'_>)| {
        let first = *labels.get((*target)?)?;
        (first <= at).then_some(first..at + 1)
    };
    let loops: Vec<_> = instructions.iter().enumerate().filter_map(back).collect();
    let holds = |outer: &std::ops::Range<usize>, inner: &std::ops::Range<usize>| {
        outer != inner && outer.start <= inner.start && inner.end <= outer.end
    };
    let innermost = loops.iter().filter(|outer| !loops.iter().any(|inner| holds(outer, inner)));
    innermost
        .map(|range| count(&instructions[range.clone()]))
        .max_by_key(|counts| (counts.products(), counts.all))
        .unwrap_or_default()
}

fn count(instructions: &[(&str, Option<&str>)]) -> Counts {
    let mut counts = Counts::default();
    instructions.iter().for_each(|(op, _)| counts += Counts::of(op));
    counts
}
