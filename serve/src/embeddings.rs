//! `POST /v1/embeddings`.

use crate::api_error::{ApiError, bad_option};
use crate::completions::texts;
use crate::models::ModelUse;
use crate::reply::{self, ApiResponse};
use crate::request::RequestFields;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foretoken::{Embedding, Pooling};
use hyper::StatusCode;
use serde_json::{Value, json};

/// Answers a request for embeddings.
pub(crate) async fn embed(
    mut fields: RequestFields,
    model_id: String,
    using: ModelUse,
) -> Result<ApiResponse, ApiError> {
    let input = texts("input", fields.take("input").unwrap_or_default())?;
    let encoding = fields.take_text("encoding_format")?.unwrap_or_else(|| "float".into());
    let encode: fn(&Embedding) -> Value = match encoding.as_str() {
        "float" => |embedding| json!(embedding.embedding),
        "base64" => |embedding| {
            let bytes: Vec<u8> = embedding.embedding.iter().flat_map(|x| x.to_le_bytes()).collect();
            STANDARD.encode(bytes).into()
        },
        _ => return Err(bad_option("encoding_format", encoding, "float or base64").into()),
    };
    let pooling = fields.take_text("pooling")?.map_or(Ok(Pooling::Mean), |pooling| pooling.parse())?;
    let normalize = fields.take_flag("normalize")?.unwrap_or(true);
    fields.drop_ignored();
    fields.finish("input, model, encoding_format, user, pooling, normalize")?;
    let pending: Vec<_> = input.into_iter().map(|text| using.model.engine.embed(text, pooling, normalize)).collect();
    let (mut data, mut tokens) = (Vec::new(), 0);
    for (index, embedding) in pending.into_iter().enumerate() {
        let embedding = embedding.await.map_err(|error| using.failed(error))?;
        tokens += embedding.num_tokens;
        data.push(json!({ "object": "embedding", "index": index, "embedding": encode(&embedding) }));
    }
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let answer = json!({ "object": "list", "data": data, "model": model_id, "usage": usage });
    Ok(reply::json(StatusCode::OK, &answer))
}
