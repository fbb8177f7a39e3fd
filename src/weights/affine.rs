//! MLX's storage of a quantised matrix in three tensors: `X.weight` with the codes in 32-bit words, `X.scales` and `X.biases`.

use super::dtype::{Affine, Dtype, Float};
use super::source::broken;
use super::{FilePlace, Stored, Tensor, tensor_of};
use crate::error::{Error, Result, WeightsRule};
use ::safetensors::Dtype::U32;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const KEY: &str = "quantization";

/// Contents of `quantization` in an MLX model's `config.json`: bits and group sizes, as a default and for single modules.
#[derive(Debug)]
pub struct Quantization {
    all: (u8, u8),
    /// Value of the `quantization` key. It holds an object for each module that differs from the default, by name, and the default's own
    /// keys.
    modules: Map<String, Value>,
}

impl Quantization {
    /// Reads the quantization; `None` if the config has none.
    ///
    /// # Errors
    /// [`Error::BadConfig`] for a mode, a number of bits or a group size that is not supported.
    pub fn parse(config: &[u8]) -> Result<Option<Self>> {
        // Other errors in the config are reported by the spec's parser.
        let Ok(Value::Object(mut config)) = serde_json::from_slice(config) else { return Ok(None) };
        let Some(Value::Object(modules)) = config.remove(KEY) else { return Ok(None) };
        let quantization = Self { all: parameters(KEY, &modules)?, modules };
        for module in quantization.modules.keys() {
            quantization.bits_of(module)?;
        }
        Ok(Some(quantization))
    }

    fn bits_of(&self, module: &str) -> Result<(u8, u8)> {
        match self.modules.get(module) {
            Some(Value::Object(of)) => parameters(&format!("{KEY}.{module}"), of),
            _ => Ok(self.all),
        }
    }

    /// Joins each three tensors of a quantised matrix into one.
    pub(super) fn join(&self, tensors: &mut BTreeMap<String, Stored>) -> Result<()> {
        let words = tensors.iter().filter(|(_, stored)| matches!(stored, Stored::Integers { dtype: U32, .. }));
        let names = words.filter_map(|(name, _)| name.strip_suffix(".weight"));
        let modules: Vec<String> = names.map(str::to_owned).collect();
        for module in modules {
            let [weight, scales, biases] = ["weight", "scales", "biases"].map(|part| format!("{module}.{part}"));
            let (bits, group_size) = self.bits_of(&module)?;
            let joined = join(tensors, [&weight, &scales, &biases], bits, group_size)?;
            tensors.remove(&scales);
            tensors.remove(&biases);
            tensors.insert(weight, Stored::Usable(joined));
        }
        Ok(())
    }
}

/// Reads the bits and the group size from an object of the config.
fn parameters(key: &str, of: &Map<String, Value>) -> Result<(u8, u8)> {
    let bad = |name: &str, value: &Value, allowed: &str| {
        let reason = format!("{value} is not supported; supported: {allowed}");
        Err(Error::BadConfig { file: "config.json".into(), key: format!("{key}.{name}"), reason })
    };
    let null = Value::Null;
    let value = |name: &str| of.get(name).unwrap_or(&null);
    match value("mode") {
        Value::Null => {}
        Value::String(mode) if mode == "affine" => {}
        other => return bad("mode", other, "affine"),
    }
    match (value("bits").as_u64(), value("group_size").as_u64()) {
        (Some(bits @ (4 | 8)), Some(size @ (32 | 64 | 128))) => Ok((bits as u8, size as u8)),
        (Some(4 | 8), _) => bad("group_size", value("group_size"), "32, 64, 128"),
        _ => bad("bits", value("bits"), "4, 8"),
    }
}

fn join(tensors: &BTreeMap<String, Stored>, names: [&String; 3], bits: u8, group_size: u8) -> Result<Tensor> {
    let Some(Stored::Integers { place: FilePlace { file, range }, shape, .. }) = tensors.get(names[0]) else {
        return tensor_of(tensors.get(names[0]), names[0], "").cloned();
    };
    let part = |name: &String| tensor_of(tensors.get(name), name, file);
    let (scales, biases) = (part(names[1])?, part(names[2])?);
    let floats = match scales.dtype {
        Dtype::F32 => Some(Float::F32),
        Dtype::F16 => Some(Float::F16),
        Dtype::Bf16 => Some(Float::Bf16),
        _ => None,
    };
    let alike = scales.dtype == biases.dtype && scales.shape == biases.shape;
    let (rows, cols) = match (&shape[..], &scales.shape[..]) {
        (&[rows, words], &[also_rows, groups]) if rows == also_rows => {
            let cols = groups.checked_mul(u64::from(group_size));
            (rows, cols.filter(|cols| cols.checked_mul(u64::from(bits)) == words.checked_mul(32)))
        }
        _ => (0, None),
    };
    let (Some(floats), Some(cols), true) = (floats, cols, alike) else {
        let rule = WeightsRule::AffineMismatch { tensor: names[0].clone(), bits, group_size };
        return Err(broken(file, rule));
    };
    let place = |tensor: &Tensor| FilePlace { file: tensor.file.clone(), range: tensor.range.clone() };
    Ok(Tensor {
        file: file.clone(),
        dtype: Dtype::Affine(Affine { bits, group_size, scales: floats }),
        shape: vec![rows, cols],
        range: range.clone(),
        scales: vec![place(scales), place(biases)],
    })
}
