//! The form of a message: its length as four bytes, little-endian, then that many bytes of JSON.

use crate::error::SandboxError;
use crate::limits::MESSAGE_BYTES_MAX;

/// Bytes of the length.
pub(crate) const LENGTH_BYTES: usize = 4;

/// What has arrived of one message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived<'a> {
    /// Not all of it yet.
    Part,
    /// One whole message and nothing after it.
    Whole(&'a [u8]),
    /// A whole message, and more after it.
    Trailing,
    /// It announces more than is allowed.
    TooLong,
}

/// Puts the length before the message.
pub(crate) fn encode(what: &'static str, message: &[u8]) -> Result<Vec<u8>, SandboxError> {
    let bytes = message.len();
    let too_long = SandboxError::TooLong { what, bytes, bytes_max: MESSAGE_BYTES_MAX };
    if bytes > MESSAGE_BYTES_MAX {
        return Err(too_long);
    }
    let length = u32::try_from(bytes).map_err(|_| too_long)?;
    let mut framed = Vec::with_capacity(LENGTH_BYTES + bytes);
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(message);
    Ok(framed)
}

/// Looks at what has arrived.
pub(crate) fn decode(bytes: &[u8]) -> Arrived<'_> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Arrived::Part;
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Arrived::TooLong;
    }
    match rest.len().cmp(&length) {
        std::cmp::Ordering::Less => Arrived::Part,
        std::cmp::Ordering::Equal => Arrived::Whole(rest),
        std::cmp::Ordering::Greater => Arrived::Trailing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for message in [&b""[..], b"{}", &[7; MESSAGE_BYTES_MAX]] {
            let framed = encode("report", message).unwrap();
            assert_eq!(decode(&framed), Arrived::Whole(message));
        }
        assert!(encode("report", &[0; MESSAGE_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn other_forms_are_told_apart() {
        assert_eq!(decode(b""), Arrived::Part);
        assert_eq!(decode(&[2, 0, 0]), Arrived::Part);
        assert_eq!(decode(&[2, 0, 0, 0, b'{']), Arrived::Part);
        assert_eq!(decode(&[1, 0, 0, 0, b'1', b'2']), Arrived::Trailing);
        assert_eq!(decode(&[255, 255, 255, 255]), Arrived::TooLong);
    }
}
