//! What a weight file must keep to: one variant per rule.

/// The rules for weight files, one variant each; `weights/` checks them before anything is allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsRule {
    /// A tensor that the architecture needs is not in any file.
    #[error("the tensor {tensor} is missing")]
    MissingTensor {
        /// Its name.
        tensor: String,
    },
    /// A tensor has another shape than `config.json` implies.
    #[error("the tensor {tensor} has the shape {found:?}, but config.json implies {expected:?}")]
    WrongShape {
        /// Its name.
        tensor: String,
        /// As stored.
        found: Vec<u64>,
        /// As implied.
        expected: Vec<u64>,
    },
    /// A row of a quantised tensor that ends inside a block.
    #[error(
        "the tensor {tensor} has rows of {elements} weights, but {dtype} stores them by {block}: write the file again"
    )]
    RowNotWholeBlocks {
        /// Its name.
        tensor: String,
        /// Weights of a row.
        elements: u64,
        /// As stored.
        dtype: &'static str,
        /// Weights of a block.
        block: usize,
    },
    /// A number type that is not f32, f16 or bf16.
    #[error("the tensor {tensor} is stored as {dtype}; supported: F32, F16, BF16")]
    UnsupportedDtype {
        /// Its name.
        tensor: String,
        /// As stored.
        dtype: String,
    },
    /// Codes, scales and biases of an MLX model that do not belong together.
    #[error(
        "the tensor {tensor} does not agree with its scales and biases, by groups of {group_size} weights of {bits} bits: \
         `quantization` in config.json says something else than the weights"
    )]
    AffineMismatch {
        /// Its name.
        tensor: String,
        /// Of a code.
        bits: u8,
        /// Weights that share a scale.
        group_size: u8,
    },
    /// NaN or infinity among the weights.
    #[error("the tensor {tensor} holds a value that is not finite, at element {index}")]
    NonFinite {
        /// Its name.
        tensor: String,
        /// Row-major element index.
        index: u64,
    },
    /// A value that is too large for the type that it was to be converted to.
    #[error("the tensor {tensor} holds values that are too large for {dtype}: load it with the dtype auto")]
    TooLargeFor {
        /// Its name.
        tensor: String,
        /// The type wanted.
        dtype: &'static str,
    },
    /// A range that is not in the file: the file is shorter than when it was opened.
    #[error("gave {found} bytes where {expected} were asked for: the file was cut or has changed: download it again")]
    Truncated {
        /// Bytes asked for.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// A file that is read whole is too large for what it should be.
    #[error("has {bytes} bytes, but the limit for this file is {limit}: it is not what its name says")]
    FileTooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// A weight file without room for the length of its header.
    #[error("has only {bytes} bytes, fewer than the 8 of the header's length: download it again")]
    FileTooShort {
        /// Its size.
        bytes: u64,
    },
    /// What git leaves in place of a large file.
    #[error("is a Git LFS pointer and not the weights: run `git lfs pull`, or download it again")]
    LfsPointer,
    /// A header of no bytes.
    #[error("has a header of 0 bytes: download it again")]
    EmptyHeader,
    /// A header longer than any model needs.
    #[error("says that its header has {bytes} bytes, but the limit is {limit}: it is damaged or not a model")]
    HeaderTooLarge {
        /// The length that it states.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// A header that would end behind the file.
    #[error("says that its header has {bytes} bytes, but only {left} follow: download it again")]
    HeaderBeyondFile {
        /// The length that it states.
        bytes: u64,
        /// The bytes behind the length.
        left: u64,
    },
    /// A header that does not begin with a brace.
    #[error("has a header that is not a JSON object: it is damaged or not a safetensors file")]
    HeaderNotObject,
    /// A header that is not text.
    #[error("has a header with text that is not UTF-8: it is damaged or not a model")]
    HeaderNotUtf8,
    /// A header that is not JSON.
    #[error("has a header that is not JSON ({reason}): download it again")]
    HeaderNotJson {
        /// The parser's words.
        reason: String,
    },
    /// More than spaces between the header's JSON and its end.
    #[error("has bytes after the JSON of its header: download it again")]
    HeaderTail,
    /// `__metadata__` is not an object of strings.
    #[error("has a bad `__metadata__` ({reason}): write the file again with the safetensors library")]
    BadMetadata {
        /// The parser's words.
        reason: String,
    },
    /// A tensor whose entry in the header lacks a field, or has one of the wrong type.
    #[error(
        "the entry of the tensor {tensor} is malformed ({reason}): write the file again with the safetensors library"
    )]
    BadTensorInfo {
        /// Its name.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// More tensors than any model needs.
    #[error("has more than {limit} tensors: it is damaged or not a language model")]
    TooManyTensors {
        /// The most that are read.
        limit: usize,
    },
    /// A tensor or a key without a name.
    #[error("has a name that is empty: write the file again")]
    EmptyName,
    /// A name longer than any model needs.
    #[error("has a name of {bytes} bytes, but the limit is {limit}: write the file again with shorter names")]
    LongName {
        /// Its length.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// A name that would garble what is printed.
    #[error("has a name with control characters ({tensor}): write the file again")]
    ControlInName {
        /// Its name, escaped.
        tensor: String,
    },
    /// A name twice in one file.
    #[error("the tensor {tensor} is there twice: download it again")]
    DuplicateTensor {
        /// Its name.
        tensor: String,
    },
    /// A name in two shards.
    #[error(
        "the tensor {tensor} is in {other} too: delete shards that belong to another model, or download all of them again"
    )]
    DuplicateAcrossShards {
        /// Its name.
        tensor: String,
        /// The other shard.
        other: String,
    },
    /// A number type that the format does not have.
    #[error("the tensor {tensor} is of the unknown type {dtype}: it is damaged, or newer than this program")]
    UnknownDtype {
        /// Its name.
        tensor: String,
        /// As stored.
        dtype: String,
    },
    /// More dimensions than any model needs.
    #[error("the tensor {tensor} has more than {limit} dimensions: it is damaged or not a language model")]
    TooManyDims {
        /// Its name.
        tensor: String,
        /// The most that are read.
        limit: usize,
    },
    /// A size that does not fit 64 bits.
    #[error("the tensor {tensor} has a shape whose size overflows: it is damaged, or made to do harm")]
    SizeOverflow {
        /// Its name.
        tensor: String,
    },
    /// An end before the beginning.
    #[error("the tensor {tensor} ends before it begins: download it again")]
    OffsetsReversed {
        /// Its name.
        tensor: String,
    },
    /// Data behind the end of the file, most often because a download was cut.
    #[error("the tensor {tensor} ends at byte {end}, but the file has {bytes}: it was cut, so download it again")]
    OffsetBeyondFile {
        /// Its name.
        tensor: String,
        /// Where it would end.
        end: u64,
        /// The file's size.
        bytes: u64,
    },
    /// Offsets that do not fit the shape and the type.
    #[error("the tensor {tensor} has {found} bytes, but its shape and type need {expected}: download it again")]
    SizeMismatch {
        /// Its name.
        tensor: String,
        /// As the shape and the type imply.
        expected: u64,
        /// As the offsets say.
        found: u64,
    },
    /// An offset that is not a multiple of a GGUF file's alignment.
    #[error("the tensor {tensor} begins at offset {offset}, no multiple of {size}: write the file again")]
    Misaligned {
        /// Its name.
        tensor: String,
        /// From the beginning of the data.
        offset: u64,
        /// What it has to be a multiple of.
        size: u64,
    },
    /// Two tensors that share bytes.
    #[error("the tensors {tensor} and {other} overlap: it is damaged, or made to do harm")]
    Overlap {
        /// The later one.
        tensor: String,
        /// The earlier one.
        other: String,
    },
    /// Bytes that belong to no tensor.
    #[error("has {bytes} bytes before the tensor {tensor} that belong to none: it is damaged, or hides something")]
    Gap {
        /// The tensor behind the hole.
        tensor: String,
        /// The hole's size.
        bytes: u64,
    },
    /// Bytes behind the last tensor.
    #[error("has {bytes} bytes after the last tensor: it is damaged, or hides something")]
    DataTail {
        /// How many.
        bytes: u64,
    },
    /// An index that is not an object with a `weight_map` of strings.
    #[error("is not a valid index ({reason}): download it again")]
    BadIndex {
        /// What is wrong.
        reason: String,
    },
    /// A shard whose name is not a plain file name, or not that of a safetensors file.
    #[error(
        "names the shard {shard}, which is not the plain name of a .safetensors file: it is damaged, or made to do harm"
    )]
    ShardName {
        /// Its name, escaped.
        shard: String,
    },
    /// A shard that the index names is not there.
    #[error("names the shard {shard}, which is not there: download it")]
    MissingShard {
        /// Its name.
        shard: String,
    },
    /// The index promises a tensor that the shard lacks.
    #[error(
        "says that the tensor {tensor} is in {shard}, but it is not: the index and the shards are of different downloads, so download all of them again"
    )]
    TensorNotInShard {
        /// Its name.
        tensor: String,
        /// The shard's name.
        shard: String,
    },
    /// A file called `.gguf` that is none.
    #[error("is not a GGUF file: it does not begin with GGUF, so it is damaged, or something else came in its place")]
    NotGguf,
    /// Of the first version, or from the future.
    #[error("is of GGUF version {version}; supported: 2, 3: convert the model again with a current llama.cpp")]
    GgufVersion {
        /// As stored.
        version: u32,
    },
    /// Numbers the other way round.
    #[error("is a big-endian GGUF file, which is not supported: convert the model again for little-endian machines")]
    BigEndian,
    /// A header that goes on behind the end of the file.
    #[error("its header goes on to byte {end} at least, but it has {bytes}: it was cut, so download it again")]
    HeaderCut {
        /// Where what it lacks would end.
        end: u64,
        /// The file's size.
        bytes: u64,
    },
    /// More keys than any model needs.
    #[error("has more than {limit} keys: it is damaged or not a model")]
    TooManyKeys {
        /// The most that are read.
        limit: u64,
    },
    /// A key twice in one file.
    #[error("the key {key} is there twice: convert the model again")]
    DuplicateKey {
        /// Its name.
        key: String,
    },
    /// A value that breaks the format.
    #[error("the key {key} has {reason}: it is damaged, or newer than this program")]
    BadValue {
        /// Its name.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// An alignment that is no power of two.
    #[error("its general.alignment is {alignment}, which is not a power of two up to 1048576: convert the model again")]
    BadAlignment {
        /// As stored.
        alignment: String,
    },
    /// A part of a split file under another name than it was written.
    #[error(
        "is one of {parts} parts, which its name does not say: give the parts the names NAME-00001-of-{parts:05}.gguf and so on"
    )]
    SplitName {
        /// As stored.
        parts: u64,
    },
    /// A part of a split file under the name of another.
    #[error("is part {found} of a split file, where part {expected} should be (from 0): download the parts again")]
    SplitNumber {
        /// As the name says.
        expected: u64,
        /// As stored.
        found: u64,
    },
    /// The parts of a split file together lack tensors, or have more.
    #[error(
        "promises {expected} tensors in all parts, but they have {found}: they are of different models, so download all again"
    )]
    SplitTensors {
        /// As stored.
        expected: u64,
        /// In all parts.
        found: usize,
    },
    /// A row behind a tensor's last one was asked for.
    #[error(
        "rows {start}..{end} of the tensor {tensor} were asked for, but it has {rows}: config.json and the weights disagree"
    )]
    RowsOutOfRange {
        /// Its name.
        tensor: String,
        /// The first row.
        start: u64,
        /// One after the last row.
        end: u64,
        /// The rows there.
        rows: u64,
    },
    /// A rule that another process or worker reports as a message.
    #[error("{message}")]
    Other {
        /// The message.
        message: String,
    },
}
