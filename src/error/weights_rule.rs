//! Rules for weight files: one variant per rule.

/// Rules for weight files, one variant each; `weights/` checks them before any allocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsRule {
    /// A tensor that the architecture needs is not in any file.
    #[error("the tensor {tensor} is missing")]
    MissingTensor {
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor has another shape than `config.json` implies.
    #[error("the tensor {tensor} has the shape {found:?}, but config.json implies {expected:?}")]
    WrongShape {
        /// Name of the tensor.
        tensor: String,
        /// Shape in the file.
        found: Vec<u64>,
        /// Shape that `config.json` implies.
        expected: Vec<u64>,
    },
    /// A row of a quantised tensor ends inside a block.
    #[error(
        "the tensor {tensor} has rows of {elements} weights, but {dtype} stores them by {block}: write the file again"
    )]
    RowNotWholeBlocks {
        /// Name of the tensor.
        tensor: String,
        /// Weights per row.
        elements: u64,
        /// Type in the file.
        dtype: &'static str,
        /// Weights per block.
        block: usize,
    },
    /// A number type other than f32, f16 and bf16.
    #[error("the tensor {tensor} is stored as {dtype}; supported: F32, F16, BF16")]
    UnsupportedDtype {
        /// Name of the tensor.
        tensor: String,
        /// Type in the file.
        dtype: String,
    },
    /// Codes, scales and biases of an MLX model do not match.
    #[error(
        "the tensor {tensor} does not agree with its scales and biases, by groups of {group_size} weights of {bits} bits: \
         `quantization` in config.json says something else than the weights"
    )]
    AffineMismatch {
        /// Name of the tensor.
        tensor: String,
        /// Bits per code.
        bits: u8,
        /// Weights per scale.
        group_size: u8,
    },
    /// A weight is NaN or infinite.
    #[error("the tensor {tensor} holds a value that is not finite, at element {index}")]
    NonFinite {
        /// Name of the tensor.
        tensor: String,
        /// Row-major element index.
        index: u64,
    },
    /// A value is too large for the requested type.
    #[error("the tensor {tensor} holds values that are too large for {dtype}: load it with the dtype auto")]
    TooLargeFor {
        /// Name of the tensor.
        tensor: String,
        /// Requested type.
        dtype: &'static str,
    },
    /// A range is not in the file: the file is shorter than when it was opened.
    #[error("gave {found} bytes where {expected} were asked for: the file was cut or has changed: download it again")]
    Truncated {
        /// Requested bytes.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A file that is read whole is too large for its kind.
    #[error("has {bytes} bytes, but the limit for this file is {limit}: it is not what its name says")]
    FileTooLarge {
        /// Size of the file.
        bytes: u64,
        /// Maximum size.
        limit: u64,
    },
    /// A weight file is too short for the length of its header.
    #[error("has only {bytes} bytes, fewer than the 8 of the header's length: download it again")]
    FileTooShort {
        /// Size of the file.
        bytes: u64,
    },
    /// A Git LFS pointer is in place of the file.
    #[error("is a Git LFS pointer and not the weights: run `git lfs pull`, or download it again")]
    LfsPointer,
    /// The header has no bytes.
    #[error("has a header of 0 bytes: download it again")]
    EmptyHeader,
    /// The header is longer than any model needs.
    #[error("says that its header has {bytes} bytes, but the limit is {limit}: it is damaged or not a model")]
    HeaderTooLarge {
        /// Stated length.
        bytes: u64,
        /// Maximum length.
        limit: u64,
    },
    /// The header would extend past the end of the file.
    #[error("says that its header has {bytes} bytes, but only {left} follow: download it again")]
    HeaderBeyondFile {
        /// Stated length.
        bytes: u64,
        /// Bytes after the length field.
        left: u64,
    },
    /// The header does not begin with a brace.
    #[error("has a header that is not a JSON object: it is damaged or not a safetensors file")]
    HeaderNotObject,
    /// The header is not UTF-8.
    #[error("has a header with text that is not UTF-8: it is damaged or not a model")]
    HeaderNotUtf8,
    /// The header is not JSON.
    #[error("has a header that is not JSON ({reason}): download it again")]
    HeaderNotJson {
        /// The parser's message.
        reason: String,
    },
    /// Other bytes than spaces follow the header's JSON.
    #[error("has bytes after the JSON of its header: download it again")]
    HeaderTail,
    /// `__metadata__` is not an object of strings.
    #[error("has a bad `__metadata__` ({reason}): write the file again with the safetensors library")]
    BadMetadata {
        /// The parser's message.
        reason: String,
    },
    /// The header's entry of a tensor lacks a field, or has one of the wrong type.
    #[error(
        "the entry of the tensor {tensor} is malformed ({reason}): write the file again with the safetensors library"
    )]
    BadTensorInfo {
        /// Name of the tensor.
        tensor: String,
        /// The problem.
        reason: String,
    },
    /// More tensors than any model needs.
    #[error("has more than {limit} tensors: it is damaged or not a language model")]
    TooManyTensors {
        /// Maximum number.
        limit: usize,
    },
    /// A tensor or a key has no name.
    #[error("has a name that is empty: write the file again")]
    EmptyName,
    /// A name is longer than any model needs.
    #[error("has a name of {bytes} bytes, but the limit is {limit}: write the file again with shorter names")]
    LongName {
        /// Length of the name.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A name has control characters, which would garble printed text.
    #[error("has a name with control characters ({tensor}): write the file again")]
    ControlInName {
        /// Name of the tensor, escaped.
        tensor: String,
    },
    /// A tensor name occurs twice in one file.
    #[error("the tensor {tensor} is there twice: download it again")]
    DuplicateTensor {
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor name occurs in two shards.
    #[error(
        "the tensor {tensor} is in {other} too: delete shards that belong to another model, or download all of them again"
    )]
    DuplicateAcrossShards {
        /// Name of the tensor.
        tensor: String,
        /// Name of the other shard.
        other: String,
    },
    /// A number type that the format does not define.
    #[error("the tensor {tensor} is of the unknown type {dtype}: it is damaged, or newer than this program")]
    UnknownDtype {
        /// Name of the tensor.
        tensor: String,
        /// Type in the file.
        dtype: String,
    },
    /// More dimensions than any model needs.
    #[error("the tensor {tensor} has more than {limit} dimensions: it is damaged or not a language model")]
    TooManyDims {
        /// Name of the tensor.
        tensor: String,
        /// Maximum number.
        limit: usize,
    },
    /// A tensor size overflows 64 bits.
    #[error("the tensor {tensor} has a shape whose size overflows: it is damaged, or made to do harm")]
    SizeOverflow {
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor ends before it begins.
    #[error("the tensor {tensor} ends before it begins: download it again")]
    OffsetsReversed {
        /// Name of the tensor.
        tensor: String,
    },
    /// Data past the end of the file, usually because a download was cut.
    #[error("the tensor {tensor} ends at byte {end}, but the file has {bytes}: it was cut, so download it again")]
    OffsetBeyondFile {
        /// Name of the tensor.
        tensor: String,
        /// End of its data, in bytes.
        end: u64,
        /// Size of the file.
        bytes: u64,
    },
    /// Offsets do not match shape and type.
    #[error("the tensor {tensor} has {found} bytes, but its shape and type need {expected}: download it again")]
    SizeMismatch {
        /// Name of the tensor.
        tensor: String,
        /// Bytes by shape and type.
        expected: u64,
        /// Bytes by the offsets.
        found: u64,
    },
    /// An offset is not a multiple of the GGUF file's alignment.
    #[error("the tensor {tensor} begins at offset {offset}, no multiple of {size}: write the file again")]
    Misaligned {
        /// Name of the tensor.
        tensor: String,
        /// Offset from the beginning of the data.
        offset: u64,
        /// Required alignment.
        size: u64,
    },
    /// Two tensors share bytes.
    #[error("the tensors {tensor} and {other} overlap: it is damaged, or made to do harm")]
    Overlap {
        /// Name of the later tensor.
        tensor: String,
        /// Name of the earlier tensor.
        other: String,
    },
    /// Bytes belong to no tensor.
    #[error("has {bytes} bytes before the tensor {tensor} that belong to none: it is damaged, or hides something")]
    Gap {
        /// Name of the tensor after the gap.
        tensor: String,
        /// Size of the gap.
        bytes: u64,
    },
    /// Bytes follow the last tensor.
    #[error("has {bytes} bytes after the last tensor: it is damaged, or hides something")]
    DataTail {
        /// Number of bytes.
        bytes: u64,
    },
    /// An index is not an object with a `weight_map` of strings.
    #[error("is not a valid index ({reason}): download it again")]
    BadIndex {
        /// The problem.
        reason: String,
    },
    /// A shard name is not a plain file name of a safetensors file.
    #[error(
        "names the shard {shard}, which is not the plain name of a .safetensors file: it is damaged, or made to do harm"
    )]
    ShardName {
        /// Name of the shard, escaped.
        shard: String,
    },
    /// A shard named by the index is missing.
    #[error("names the shard {shard}, which is not there: download it")]
    MissingShard {
        /// Name of the shard.
        shard: String,
    },
    /// The index assigns a tensor to a shard that lacks it.
    #[error(
        "says that the tensor {tensor} is in {shard}, but it is not: the index and the shards are of different downloads, so download all of them again"
    )]
    TensorNotInShard {
        /// Name of the tensor.
        tensor: String,
        /// Name of the shard.
        shard: String,
    },
    /// A `.gguf` file is not in GGUF format.
    #[error("is not a GGUF file: it does not begin with GGUF, so it is damaged, or something else came in its place")]
    NotGguf,
    /// GGUF version 1, or a newer version than supported.
    #[error("is of GGUF version {version}; supported: 2, 3: convert the model again with a current llama.cpp")]
    GgufVersion {
        /// Version in the file.
        version: u32,
    },
    /// A big-endian GGUF file.
    #[error("is a big-endian GGUF file, which is not supported: convert the model again for little-endian machines")]
    BigEndian,
    /// The header extends past the end of the file.
    #[error("its header goes on to byte {end} at least, but it has {bytes}: it was cut, so download it again")]
    HeaderCut {
        /// End of the missing data, in bytes.
        end: u64,
        /// Size of the file.
        bytes: u64,
    },
    /// More keys than any model needs.
    #[error("has more than {limit} keys: it is damaged or not a model")]
    TooManyKeys {
        /// Maximum number.
        limit: u64,
    },
    /// A key occurs twice in one file.
    #[error("the key {key} is there twice: convert the model again")]
    DuplicateKey {
        /// Name of the key.
        key: String,
    },
    /// A value violates the format.
    #[error("the key {key} has {reason}: it is damaged, or newer than this program")]
    BadValue {
        /// Name of the key.
        key: String,
        /// The problem.
        reason: String,
    },
    /// An alignment is not a power of two.
    #[error("its general.alignment is {alignment}, which is not a power of two up to 1048576: convert the model again")]
    BadAlignment {
        /// Value in the file.
        alignment: String,
    },
    /// A part of a split file was renamed.
    #[error(
        "is one of {parts} parts, which its name does not say: give the parts the names NAME-00001-of-{parts:05}.gguf and so on"
    )]
    SplitName {
        /// Number of parts, as stored.
        parts: u64,
    },
    /// A part of a split file has the name of another part.
    #[error("is part {found} of a split file, where part {expected} should be (from 0): download the parts again")]
    SplitNumber {
        /// Part number in the name.
        expected: u64,
        /// Part number, as stored.
        found: u64,
    },
    /// The parts of a split file have too few or too many tensors in total.
    #[error(
        "promises {expected} tensors in all parts, but they have {found}: they are of different models, so download all again"
    )]
    SplitTensors {
        /// Number of tensors, as stored.
        expected: u64,
        /// Number of tensors in all parts.
        found: usize,
    },
    /// A requested row is past a tensor's last row.
    #[error(
        "rows {start}..{end} of the tensor {tensor} were asked for, but it has {rows}: config.json and the weights disagree"
    )]
    RowsOutOfRange {
        /// Name of the tensor.
        tensor: String,
        /// First row.
        start: u64,
        /// One past the last row.
        end: u64,
        /// Number of rows in the tensor.
        rows: u64,
    },
    /// A rule reported as a message by another process or worker.
    #[error("{message}")]
    Other {
        /// Text of the message.
        message: String,
    },
}
