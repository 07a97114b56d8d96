//! The tools `crypto.hash`, `crypto.hmac` and `crypto.uuid`.
//!
//! ```
//! use serde_json::json;
//! use workflow_flows::ToolCall;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let tools = workflow_tools::crypto::tools();
//! let hash = tools.iter().find(|tool| tool.name() == "crypto.hash").unwrap();
//! let result = hash.call(ToolCall::new(json!({ "data": "abc" }), "ann", "key")).await.unwrap();
//! assert!(result["hash"].as_str().unwrap().starts_with("ba7816bf"));
//! # }
//! ```

use std::fmt::Write;
use std::sync::Arc;

use hmac::digest::{Digest, KeyInit};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use crate::arguments::{invalid, parse};
use crate::function::Function;

/// Returns the tools.
#[must_use]
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let algorithm = json!({ "enum": ["sha256", "sha384", "sha512", "sha1", "md5"], "default": "sha256" });
    let data = json!({ "type": "string" });
    let of_hash = json!({
        "type": "object", "required": ["data"], "additionalProperties": false,
        "properties": { "data": data, "algorithm": algorithm },
    });
    let of_hmac = json!({
        "type": "object", "required": ["data", "key"], "additionalProperties": false,
        "properties": { "data": data, "key": data, "algorithm": algorithm },
    });
    let of_uuid = json!({ "type": "object", "additionalProperties": false });
    vec![
        Function::new("crypto.hash", "Returns the digest of a text, in hexadecimal.", of_hash, hash).shared(),
        Function::new("crypto.hmac", "Returns the HMAC of a text, in hexadecimal.", of_hmac, hmac).shared(),
        Function::new("crypto.uuid", "Returns a random UUID.", of_uuid, uuid).shared(),
    ]
}

#[derive(Serialize, Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum Algorithm {
    #[default]
    Sha256,
    Sha384,
    Sha512,
    Sha1,
    Md5,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HashArguments {
    data: String,
    #[serde(default)]
    algorithm: Algorithm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HmacArguments {
    data: String,
    key: String,
    #[serde(default)]
    algorithm: Algorithm,
}

fn hash(call: &ToolCall) -> Result<Value, ToolError> {
    let HashArguments { data, algorithm } = parse("crypto.hash", &call.args)?;
    let hash = match algorithm {
        Algorithm::Sha256 => hex(&sha2::Sha256::digest(&data)),
        Algorithm::Sha384 => hex(&sha2::Sha384::digest(&data)),
        Algorithm::Sha512 => hex(&sha2::Sha512::digest(&data)),
        Algorithm::Sha1 => hex(&sha1::Sha1::digest(&data)),
        Algorithm::Md5 => hex(&md5::Md5::digest(&data)),
    };
    Ok(json!({ "hash": hash, "algorithm": algorithm }))
}

fn hmac(call: &ToolCall) -> Result<Value, ToolError> {
    let HmacArguments { data, key, algorithm } = parse("crypto.hmac", &call.args)?;
    let (key, data) = (key.as_bytes(), data.as_bytes());
    let mac = match algorithm {
        Algorithm::Sha256 => mac::<Hmac<sha2::Sha256>>(key, data),
        Algorithm::Sha384 => mac::<Hmac<sha2::Sha384>>(key, data),
        Algorithm::Sha512 => mac::<Hmac<sha2::Sha512>>(key, data),
        Algorithm::Sha1 => mac::<Hmac<sha1::Sha1>>(key, data),
        Algorithm::Md5 => mac::<Hmac<md5::Md5>>(key, data),
    };
    Ok(json!({ "hmac": mac?, "algorithm": algorithm }))
}

fn mac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Result<String, ToolError> {
    let wrong = |_| invalid("crypto.hmac cannot use a key of this length");
    let mut mac = <M as KeyInit>::new_from_slice(key).map_err(wrong)?;
    mac.update(data);
    Ok(hex(&mac.finalize().into_bytes()))
}

fn uuid(_call: &ToolCall) -> Result<Value, ToolError> {
    Ok(json!({ "uuid": uuid::Uuid::new_v4().to_string() }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: fn(&ToolCall) -> Result<Value, ToolError>, args: Value) -> Result<Value, ToolError> {
        body(&ToolCall::new(args, "", ""))
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        let of =
            |algorithm: &str| call(hash, json!({ "data": "abc", "algorithm": algorithm })).unwrap()["hash"].clone();
        assert_eq!(of("md5"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(of("sha1"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(of("sha256"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(of("sha384").as_str().unwrap().starts_with("cb00753f45a35e8b"));
        assert!(of("sha512").as_str().unwrap().starts_with("ddaf35a193617aba"));
        assert!(call(hash, json!({ "data": "abc", "algorithm": "crc" })).is_err());
    }

    #[test]
    fn macs_are_those_of_the_standards() {
        // Case 2 of RFC 4231, and of RFC 2202 for the older two.
        let args =
            |algorithm: &str| json!({ "key": "Jefe", "data": "what do ya want for nothing?", "algorithm": algorithm });
        let of = |algorithm: &str| call(hmac, args(algorithm)).unwrap()["hmac"].clone();
        assert_eq!(of("sha256"), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_eq!(of("sha1"), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        assert_eq!(of("md5"), "750c783e6ab0b503eaa86e310a5db738");
        assert!(of("sha512").as_str().unwrap().starts_with("164b7a7bfcf819e2"));
    }

    #[test]
    fn uuids_differ() {
        assert_ne!(call(uuid, json!({})).unwrap(), call(uuid, json!({})).unwrap());
    }
}
