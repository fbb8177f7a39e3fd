//! WGSL fragments by purpose. Fragments of one kind define the same functions.

use super::kernels::Subnormals;
use crate::model::Activation;
use crate::options::{Arithmetic, KvDtype};
use crate::weights::{Codes, Float, Format, Scales};
use std::iter;

/// Includes a file of `shaders/`, as written by build.rs.
macro_rules! shader {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/shaders/", $file))
    };
}
pub(super) use shader;

/// Returns the constants that weight fragments need.
pub(super) fn constants(format: Format) -> String {
    let has_factors =
        matches!(format, Format::Quantised { scales: Scales::SixBits | Scales::Signed | Scales::Nibbles, .. });
    // Scale factors are read as subnormal f16: multiples of 2^-24.
    let weight_scale = if has_factors { "0x1p24" } else { "1.0" };
    let both = format!("const CHUNK4 = {}u;\nconst WEIGHT_SCALE = {weight_scale};\n", format.chunk() / 4);
    let Format::Quantised { center, scales, .. } = format else { return both };
    let group = match scales {
        Scales::Centered(group) | Scales::Pairs(_, group) => usize::from(group),
        _ => 32,
    };
    format!("{both}const CENTER = {center}.0;\nconst GROUP_CHUNKS = {}u;\n", group / format.chunk())
}

/// Returns the fragments for products; for integers, also those for the size of parts that share a scale.
pub(super) fn arithmetic_of(arithmetic: Arithmetic, format: Format) -> Vec<&'static str> {
    let Arithmetic::Int8 = arithmetic else { return vec![shader!("lib/float.wgsl")] };
    let (both, whole) = (shader!("lib/int8.wgsl"), shader!("lib/codes_whole.wgsl"));
    let Format::Quantised { codes, scales, .. } = format else { return vec![both] };
    if codes == Codes::Eight {
        return vec![both, shader!("lib/int8_16.wgsl")];
    }
    let parts = match scales {
        Scales::Signed | Scales::Nibbles => shader!("lib/int8_halves.wgsl"),
        _ => shader!("lib/int8_32.wgsl"),
    };
    let whole = Some(whole).filter(|_| codes != Codes::Four);
    [both].into_iter().chain(whole).chain([shader!("lib/int8_parts.wgsl"), parts]).collect()
}

/// Returns the fragment for the float products of a chunk. SwiftShader copies sums that a loop carries (`loops`): too costly for at most two
/// vec4s of weights, which are unrolled.
pub(super) fn chunk(format: Format, arithmetic: Arithmetic, loops: bool) -> Option<String> {
    let fours = format.chunk() as u32 / 4;
    let chunk = || match loops && fours > 2 {
        true => shader!("lib/chunk_loop.wgsl").into(),
        false => repeated(shader!("lib/chunk.wgsl"), "FOURS", fours),
    };
    (arithmetic == Arithmetic::F32).then(chunk)
}

/// Returns fragments for floats, two at a time.
pub(super) fn weight2(float: Float, subnormals: Subnormals) -> Vec<&'static str> {
    match float {
        Float::F32 => vec![shader!("lib/serial_f32.wgsl")],
        Float::F16 => vec![f16(subnormals), shader!("lib/serial_f16.wgsl")],
        Float::Bf16 => vec![shader!("lib/serial_bf16.wgsl")],
    }
}

fn f16(subnormals: Subnormals) -> &'static str {
    match subnormals {
        Subnormals::Kept => shader!("lib/f16_native.wgsl"),
        Subnormals::Flushed => shader!("lib/f16_by_hand.wgsl"),
    }
}

pub(super) fn weight(format: Format, subnormals: Subnormals) -> Vec<&'static str> {
    let (f16, no_lane) = (f16(subnormals), shader!("lib/lane_none.wgsl"));
    let (codes, scales) = match format {
        Format::Float(float) => {
            let load = shader!("lib/load_float.wgsl");
            return match float {
                Float::F32 => vec![no_lane, load, shader!("lib/weight_f32.wgsl")],
                Float::F16 => vec![no_lane, load, f16, shader!("lib/weight_f16.wgsl")],
                Float::Bf16 => vec![no_lane, load, shader!("lib/weight_bf16.wgsl")],
            };
        }
        Format::Quantised { codes, scales, .. } => (codes, scales),
    };
    let (alone, packed) = (shader!("lib/codes_alone.wgsl"), shader!("lib/codes_packed.wgsl"));
    let codes = match codes {
        Codes::One => vec![shader!("lib/codes_1.wgsl"), packed],
        Codes::Two => vec![shader!("lib/codes_2.wgsl"), packed],
        Codes::Four => vec![alone, shader!("lib/codes_4.wgsl"), packed],
        Codes::Levels => vec![alone, shader!("lib/codes_levels.wgsl")],
        Codes::Floats => vec![alone, shader!("lib/codes_floats.wgsl")],
        Codes::Five => vec![shader!("lib/codes_5.wgsl"), packed],
        Codes::Six => vec![shader!("lib/codes_6.wgsl"), packed],
        Codes::Eight => vec![alone, shader!("lib/codes_8.wgsl"), packed],
    };
    let (per_chunk, per_half) = (shader!("lib/scales_per_chunk.wgsl"), shader!("lib/scales_per_half.wgsl"));
    let scales = match scales {
        Scales::Centered(_) => vec![per_chunk, shader!("lib/scales_centered.wgsl")],
        Scales::Powers => vec![per_chunk, no_lane, shader!("lib/scales_powers.wgsl")],
        Scales::Pairs(Float::F16, _) => vec![per_chunk, no_lane, shader!("lib/scales_f16.wgsl")],
        Scales::Pairs(Float::Bf16, _) => vec![per_chunk, no_lane, shader!("lib/scales_bf16.wgsl")],
        Scales::Pairs(Float::F32, _) => vec![per_chunk, no_lane, shader!("lib/scales_f32.wgsl")],
        Scales::SixBits => vec![per_chunk, shader!("lib/scales_6.wgsl")],
        Scales::Signed => vec![per_half, shader!("lib/scales_signed.wgsl")],
        Scales::Nibbles => vec![per_half, shader!("lib/scales_nibbles.wgsl")],
    };
    [vec![f16, shader!("lib/weight_quantised.wgsl")], codes, scales].concat()
}

pub(super) fn activation(function: Activation) -> Vec<&'static str> {
    let alone = match function {
        Activation::Silu => shader!("lib/silu.wgsl"),
        Activation::Gelu => shader!("lib/gelu.wgsl"),
        Activation::GeluTanh => shader!("lib/gelu_tanh.wgsl"),
        Activation::Relu => shader!("lib/relu.wgsl"),
        Activation::ReluSquared => shader!("lib/relu_squared.wgsl"),
        Activation::ClampedSwiglu => return vec![shader!("lib/clamped_swiglu.wgsl")],
    };
    vec![alone, shader!("lib/gated.wgsl")]
}

pub(super) fn fill(format: Format) -> &'static str {
    match format {
        Format::Float(Float::F32) => shader!("lib/fill_f32.wgsl"),
        Format::Float(Float::Bf16) => shader!("lib/fill_bf16.wgsl"),
        _ => shader!("lib/fill_f16.wgsl"),
    }
}

/// Returns the fragment that sums `count` rows.
pub(super) fn rows(count: u32) -> String {
    match count {
        1 => shader!("lib/rows_1.wgsl").into(),
        2 => shader!("lib/rows_2.wgsl").into(),
        _ => repeated(shader!("lib/quads.wgsl"), "QUADS", count / 4),
    }
}

/// Expands a fragment: repeats each line that has a # `count` times, with its number in place of #. Defines `name` as `count`.
pub(super) fn repeated(fragment: &str, name: &str, count: u32) -> String {
    let lines = fragment.lines().flat_map(|line| {
        let count = if line.contains('#') { count } else { 1 };
        (0..count).map(move |i| line.replace('#', &i.to_string()))
    });
    iter::once(format!("const {name} = {count}u;")).chain(lines).collect::<Vec<_>>().join("\n")
}

pub(super) fn kv_store(kv: KvDtype) -> &'static str {
    match kv {
        KvDtype::F32 => shader!("lib/kv_store_f32.wgsl"),
        KvDtype::F16 => shader!("lib/kv_store_f16.wgsl"),
    }
}

pub(super) fn kv_load(kv: KvDtype) -> &'static str {
    match kv {
        KvDtype::F32 => shader!("lib/kv_load_f32.wgsl"),
        KvDtype::F16 => shader!("lib/kv_load_f16.wgsl"),
    }
}
