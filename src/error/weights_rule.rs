//! Rules for weight files, each with its message.

/// Declares the rules: `Name { fields } => "message"`, where `{field}` stands for the field's value.
macro_rules! rules {
    ($($Rule:ident $({ $($field:ident: $type:ty),* })? => $message:tt,)*) => {
        /// Rules for weight files, one variant each. The file is named by [`Error::BadWeights`](crate::Error::BadWeights).
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum WeightsRule {
            $(#[doc = $message] #[error($message)] $Rule $({ $(#[doc = concat!("`", stringify!($field), "` in the message.")] $field: $type),* })?,)*
        }
    };
}

// `Other` is a rule that another process or worker reported as a message.
rules! {
    MissingTensor { tensor: String } => "the tensor {tensor} is missing",
    WrongShape { tensor: String, found: Vec<u64>, expected: Vec<u64> } =>
        "the tensor {tensor} has the shape {found:?}, but config.json implies {expected:?}",
    RowNotWholeBlocks { tensor: String, elements: u64, dtype: &'static str, block: usize } =>
        "the tensor {tensor} has rows of {elements} weights, but {dtype} stores them by {block}: write the file again",
    UnsupportedDtype { tensor: String, dtype: String } => "the tensor {tensor} is stored as {dtype}; supported: F32, F16, BF16",
    AffineMismatch { tensor: String, bits: u8, group_size: u8 } =>
        "the tensor {tensor} does not agree with its scales and biases, by groups of {group_size} weights of {bits} bits: \
         `quantization` in config.json says something else than the weights",
    NonFinite { tensor: String, index: u64 } => "the tensor {tensor} holds a value that is not finite, at element {index}",
    TooLargeFor { tensor: String, dtype: &'static str } =>
        "the tensor {tensor} holds values that are too large for {dtype}: load it with the dtype auto",
    Truncated { expected: u64, found: u64 } =>
        "gave {found} bytes where {expected} were asked for: the file was cut or has changed: download it again",
    FileTooLarge { bytes: u64, limit: u64 } => "has {bytes} bytes, but the limit for this file is {limit}: it is not what its name says",
    FileTooShort { bytes: u64 } => "has only {bytes} bytes, fewer than the 8 of the header's length: download it again",
    LfsPointer => "is a Git LFS pointer and not the weights: run `git lfs pull`, or download it again",
    EmptyHeader => "has a header of 0 bytes: download it again",
    HeaderTooLarge { bytes: u64, limit: u64 } =>
        "says that its header has {bytes} bytes, but the limit is {limit}: it is damaged or not a model",
    HeaderBeyondFile { bytes: u64, left: u64 } => "says that its header has {bytes} bytes, but only {left} follow: download it again",
    HeaderNotObject => "has a header that is not a JSON object: it is damaged or not a safetensors file",
    HeaderNotUtf8 => "has a header with text that is not UTF-8: it is damaged or not a model",
    HeaderNotJson { reason: String } => "has a header that is not JSON ({reason}): download it again",
    HeaderTail => "has bytes after the JSON of its header: download it again",
    BadMetadata { reason: String } => "has a bad `__metadata__` ({reason}): write the file again with the safetensors library",
    BadTensorInfo { tensor: String, reason: String } =>
        "the entry of the tensor {tensor} is malformed ({reason}): write the file again with the safetensors library",
    TooManyTensors { limit: usize } => "has more than {limit} tensors: it is damaged or not a language model",
    EmptyName => "has a name that is empty: write the file again",
    LongName { bytes: usize, limit: usize } =>
        "has a name of {bytes} bytes, but the limit is {limit}: write the file again with shorter names",
    ControlInName { tensor: String } => "has a name with control characters ({tensor}): write the file again",
    DuplicateTensor { tensor: String } => "the tensor {tensor} is there twice: download it again",
    DuplicateAcrossShards { tensor: String, other: String } =>
        "the tensor {tensor} is in {other} too: delete shards that belong to another model, or download all of them again",
    UnknownDtype { tensor: String, dtype: String } =>
        "the tensor {tensor} is of the unknown type {dtype}: it is damaged, or newer than this program",
    TooManyDims { tensor: String, limit: usize } =>
        "the tensor {tensor} has more than {limit} dimensions: it is damaged or not a language model",
    SizeOverflow { tensor: String } => "the tensor {tensor} has a shape whose size overflows: it is damaged, or made to do harm",
    OffsetsReversed { tensor: String } => "the tensor {tensor} ends before it begins: download it again",
    OffsetBeyondFile { tensor: String, end: u64, bytes: u64 } =>
        "the tensor {tensor} ends at byte {end}, but the file has {bytes}: it was cut, so download it again",
    SizeMismatch { tensor: String, expected: u64, found: u64 } =>
        "the tensor {tensor} has {found} bytes, but its shape and type need {expected}: download it again",
    Misaligned { tensor: String, offset: u64, size: u64 } =>
        "the tensor {tensor} begins at offset {offset}, no multiple of {size}: write the file again",
    Overlap { tensor: String, other: String } => "the tensors {tensor} and {other} overlap: it is damaged, or made to do harm",
    Gap { tensor: String, bytes: u64 } =>
        "has {bytes} bytes before the tensor {tensor} that belong to none: it is damaged, or hides something",
    DataTail { bytes: u64 } => "has {bytes} bytes after the last tensor: it is damaged, or hides something",
    BadIndex { reason: String } => "is not a valid index ({reason}): download it again",
    ShardName { shard: String } =>
        "names the shard {shard}, which is not the plain name of a .safetensors file: it is damaged, or made to do harm",
    MissingShard { shard: String } => "names the shard {shard}, which is not there: download it",
    TensorNotInShard { tensor: String, shard: String } =>
        "says that the tensor {tensor} is in {shard}, but it is not: the index and the shards are of different downloads, so \
         download all of them again",
    NotGguf => "is not a GGUF file: it does not begin with GGUF, so it is damaged, or something else came in its place",
    GgufVersion { version: u32 } => "is of GGUF version {version}; supported: 2, 3: convert the model again with a current llama.cpp",
    BigEndian => "is a big-endian GGUF file, which is not supported: convert the model again for little-endian machines",
    HeaderCut { end: u64, bytes: u64 } => "its header goes on to byte {end} at least, but it has {bytes}: it was cut, so download it again",
    TooManyKeys { limit: u64 } => "has more than {limit} keys: it is damaged or not a model",
    DuplicateKey { key: String } => "the key {key} is there twice: convert the model again",
    BadValue { key: String, reason: String } => "the key {key} has {reason}: it is damaged, or newer than this program",
    BadAlignment { alignment: String } =>
        "its general.alignment is {alignment}, which is not a power of two up to 1048576: convert the model again",
    SplitName { parts: u64 } =>
        "is one of {parts} parts, which its name does not say: give the parts the names NAME-00001-of-{parts:05}.gguf and so on",
    SplitNumber { expected: u64, found: u64 } =>
        "is part {found} of a split file, where part {expected} should be (from 0): download the parts again",
    SplitTensors { expected: u64, found: usize } =>
        "promises {expected} tensors in all parts, but they have {found}: they are of different models, so download all again",
    RowsOutOfRange { tensor: String, start: u64, end: u64, rows: u64 } =>
        "rows {start}..{end} of the tensor {tensor} were asked for, but it has {rows}: config.json and the weights disagree",
    Other { message: String } => "{message}",
}
