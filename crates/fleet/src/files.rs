//! Files in one compressed archive, as everything travels here.
//!
//! Reading checks everything, sizes included: an archive can hold anything.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Take};
use std::path::{Component, Path};

use crate::limits::{JOB_FILES_MAX, ZSTD_LEVEL};

/// What every zstd frame begins with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Why an archive does not read that ends too soon.
pub(crate) const CUT_SHORT: &str = "the file is cut short";

/// Packs files; equal files in equal order give equal bytes.
///
/// # Errors
/// Names that an archive cannot hold, in words.
pub(crate) fn pack_files<'a>(
    files: impl Iterator<Item = (String, &'a [u8])>,
) -> Result<Vec<u8>, String> {
    let encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(|e| e.to_string())?;
    let mut archive = tar::Builder::new(encoder);
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, name, bytes).map_err(|error| error.to_string())?;
    }
    let encoder = archive.into_inner().map_err(|error| error.to_string())?;
    encoder.finish().map_err(|error| error.to_string())
}

/// Reads plain files of at most `bytes_max` bytes together.
///
/// # Errors
/// Anything else, in words.
pub(crate) fn read_files(
    bytes: &[u8],
    bytes_max: u64,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Err("it is no archive (`.tar.zst`)".to_owned());
    }
    let decoder = zstd::Decoder::new(bytes).map_err(in_words)?.single_frame();
    // One byte more than is allowed shows that there is more.
    let mut archive = tar::Archive::new(decoder.take(bytes_max + 1));
    let mut files = BTreeMap::new();
    let mut total = 0u64;
    for entry in archive.entries().map_err(in_words)? {
        let mut entry = entry.map_err(in_words)?;
        let path = entry.path().map_err(in_words)?.into_owned();
        let name = safe_name(&path).ok_or_else(|| format!("`{}` is no name", path.display()))?;
        if !entry.header().entry_type().is_file() {
            return Err(format!("`{name}` is not a plain file"));
        }
        total = total.saturating_add(entry.size());
        if total > bytes_max || files.len() >= JOB_FILES_MAX {
            return Err("it is too large".to_owned());
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(in_words)?;
        if files.insert(name.clone(), content).is_some() {
            return Err(format!("`{name}` is in it twice"));
        }
    }
    check_end(archive.into_inner())?;
    Ok(files)
}

/// After its last file an archive has nothing but zeros, and a bundle nothing but its archive.
fn check_end(mut rest: Take<zstd::Decoder<'_, BufReader<&[u8]>>>) -> Result<(), String> {
    let mut padding = Vec::new();
    rest.read_to_end(&mut padding).map_err(in_words)?;
    let left = rest.into_inner().finish();
    if padding.iter().any(|byte| *byte != 0)
        || !left.buffer().is_empty()
        || !left.get_ref().is_empty()
    {
        return Err("something follows the end of its archive".to_owned());
    }
    Ok(())
}

/// What an archive is that does not read.
fn in_words(error: std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => CUT_SHORT.to_owned(),
        _ => format!("it is no archive of files ({error})"),
    }
}

fn safe_name(path: &Path) -> Option<String> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    path.to_str().filter(|name| plain && !name.is_empty()).map(str::to_owned)
}

/// Takes a file out.
///
/// # Errors
/// There is none.
pub(crate) fn take(files: &mut BTreeMap<String, Vec<u8>>, name: &str) -> Result<Vec<u8>, String> {
    files.remove(name).ok_or_else(|| format!("it has no `{name}`"))
}

/// As [`take`], for a text.
///
/// # Errors
/// There is none, or it is not UTF-8.
pub(crate) fn take_text(
    files: &mut BTreeMap<String, Vec<u8>>,
    name: &str,
) -> Result<String, String> {
    String::from_utf8(take(files, name)?).map_err(|_| format!("`{name}` is not UTF-8 text"))
}
