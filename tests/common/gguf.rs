//! GGUF files, built field by field.

pub const U8: u32 = 0;
pub const U16: u32 = 2;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const TEXT: u32 = 8;
pub const ARRAY: u32 = 9;
pub const U64: u32 = 10;

/// The contents of a file, field by field.
#[derive(Clone)]
pub struct File {
    pub version: u32,
    pub keys: Vec<(String, u32, Vec<u8>)>,
    /// Name, dimensions from the innermost outwards, type, offset.
    pub tensors: Vec<(String, Vec<u64>, u32, u64)>,
    pub data: Vec<u8>,
    /// End of the last tensor in the data.
    pub end: u64,
    pub alignment: usize,
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

pub fn array(kind: u32, items: &[Vec<u8>]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
}

pub fn texts(items: &[&str]) -> Vec<u8> {
    array(TEXT, &items.iter().map(|item| text(item)).collect::<Vec<_>>())
}

impl Default for File {
    fn default() -> Self {
        Self { version: 3, keys: vec![], tensors: vec![], data: vec![], end: 0, alignment: 32 }
    }
}

impl File {
    pub fn key(mut self, name: &str, kind: u32, value: impl Into<Vec<u8>>) -> Self {
        self.keys.push((name.into(), kind, value.into()));
        self
    }

    /// Adds a tensor after the previous ones.
    pub fn tensor(self, name: &str, dims: &[u64], kind: u32, bytes: &[u8]) -> Self {
        let mut file = self.hollow(name, dims, kind, bytes.len() as u64);
        file.data.resize(file.end as usize - bytes.len(), 0);
        file.data.extend(bytes);
        file
    }

    /// Adds a tensor of `bytes` bytes, which `data` does not hold.
    pub fn hollow(mut self, name: &str, dims: &[u64], kind: u32, bytes: u64) -> Self {
        let start = self.end.next_multiple_of(self.alignment as u64);
        self.tensors.push((name.into(), dims.into(), kind, start));
        self.end = start + bytes;
        self
    }

    /// Returns everything before the data.
    pub fn header(&self) -> Vec<u8> {
        let counts = [self.tensors.len() as u64, self.keys.len() as u64];
        let mut bytes = [b"GGUF".as_slice(), &self.version.to_le_bytes()].concat();
        counts.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
        for (name, kind, value) in &self.keys {
            bytes.extend([text(name), kind.to_le_bytes().into(), value.clone()].concat());
        }
        for (name, dims, kind, offset) in &self.tensors {
            bytes.extend([text(name), (dims.len() as u32).to_le_bytes().into()].concat());
            dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
            bytes.extend([&kind.to_le_bytes()[..], &offset.to_le_bytes()].concat());
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.header(), self.data.clone()].concat()
    }
}
