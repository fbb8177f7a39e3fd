//! Header of a GGUF file, for writing.

use foretoken::internals::weights::Dtype;

const ALIGNMENT: usize = 32;
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Keys with their values, and the tensors of the file.
#[derive(Default)]
pub(super) struct Header {
    keys: u64,
    /// Entries as bytes of the file.
    values: Vec<u8>,
    tensors: u64,
    places: Vec<u8>,
    /// Bytes of all tensors so far.
    end: usize,
}

impl Header {
    /// Adds a value given as bytes of the file.
    pub fn put(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.keys += 1;
        push_text(&mut self.values, key);
        self.values.extend(kind.to_le_bytes());
        self.values.extend(value);
    }

    pub fn count(&mut self, key: &str, count: usize) {
        self.put(key, U32, &(count as u32).to_le_bytes());
    }

    pub fn number(&mut self, key: &str, number: f64) {
        self.put(key, F32, &(number as f32).to_le_bytes());
    }

    pub fn flag(&mut self, key: &str, flag: bool) {
        self.put(key, BOOL, &[flag.into()]);
    }

    pub fn text(&mut self, key: &str, text: &str) {
        let mut value = Vec::new();
        push_text(&mut value, text);
        self.put(key, TEXT, &value);
    }

    pub fn texts(&mut self, key: &str, texts: &[impl AsRef<str>]) {
        let mut value = array(TEXT, texts.len());
        texts.iter().for_each(|text| push_text(&mut value, text.as_ref()));
        self.put(key, ARRAY, &value);
    }

    pub fn flags(&mut self, key: &str, flags: impl ExactSizeIterator<Item = bool>) {
        let mut value = array(BOOL, flags.len());
        value.extend(flags.map(u8::from));
        self.put(key, ARRAY, &value);
    }

    pub fn integers(&mut self, key: &str, integers: &[i32]) {
        let mut value = array(I32, integers.len());
        value.extend(integers.iter().flat_map(|integer| integer.to_le_bytes()));
        self.put(key, ARRAY, &value);
    }

    pub fn numbers(&mut self, key: &str, numbers: &[f32]) {
        let mut value = array(F32, numbers.len());
        value.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.put(key, ARRAY, &value);
    }

    /// Adds a tensor of whole rows after the previous ones. Returns the number of padding zeros after its bytes.
    pub fn tensor(&mut self, name: &str, shape: &[u64], dtype: Dtype) -> usize {
        self.tensors += 1;
        push_text(&mut self.places, name);
        self.places.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|size| self.places.extend(size.to_le_bytes()));
        self.places.extend(dtype.gguf_number().unwrap_or_default().to_le_bytes());
        self.places.extend((self.end as u64).to_le_bytes());
        let bytes = dtype.bytes(shape.iter().product()).unwrap_or_default() as usize;
        let padded = bytes.next_multiple_of(ALIGNMENT);
        self.end += padded;
        padded - bytes
    }

    /// Returns the whole header, up to the first tensor's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let counts = [self.tensors.to_le_bytes(), self.keys.to_le_bytes()].concat();
        let mut bytes = [b"GGUF\x03\0\0\0", &counts[..], &self.values, &self.places].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }
}

fn array(kind: u32, count: usize) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat()
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
