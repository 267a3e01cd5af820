//! The `.npy` format of NumPy, versions 1 to 3: header and raw bytes.

use pipeline::dtype::Dtype;

use crate::limits::NPY_HEADER_BYTES_MAX;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers end at a multiple of this.
const ALIGN: usize = 64;

/// An array as a file holds it.
#[derive(Debug, PartialEq)]
pub(crate) struct Array<'a> {
    /// `None` for a type that buffers do not have.
    pub(crate) dtype: Option<Dtype>,
    /// As NumPy writes it, such as `<f4`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: &'a [u8],
}

/// True for the start of such a file.
pub(crate) fn is_npy(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads an array in C order and little-endian bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Array<'_>, String> {
    let cut = || "the file is cut short".to_owned();
    let rest = bytes.strip_prefix(MAGIC).ok_or("it is no .npy file")?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(cut)?;
    let width = if version.first() == Some(&1) { 2 } else { 4 };
    let (length, rest) = rest.split_at_checked(width).ok_or_else(cut)?;
    let length = length.iter().rev().fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
    if length > NPY_HEADER_BYTES_MAX {
        return Err(format!("its header is longer than {NPY_HEADER_BYTES_MAX} bytes"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = String::from_utf8_lossy(header);
    let value = |key: &str| {
        let (_, after) = header.split_once(&format!("'{key}':"))?;
        Some(after.trim_start().to_owned())
    };
    let descr = value("descr").and_then(|text| Some(text.strip_prefix('\'')?.to_owned()));
    let descr = descr.and_then(|text| text.split_once('\'').map(|(descr, _)| descr.to_owned()));
    let descr = descr.ok_or("its header has no plain type: structured arrays are not read")?;
    if value("fortran_order").is_none_or(|text| !text.starts_with("False")) {
        return Err("it is in Fortran order; save numpy.ascontiguousarray(x)".to_owned());
    }
    let shape = value("shape").and_then(|text| shape(&text)).ok_or("its header has no shape")?;
    Ok(Array { dtype: dtype(&descr)?, descr, shape, data })
}

fn shape(text: &str) -> Option<Vec<u64>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let extents = inside.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    extents.map(|extent| extent.trim_end_matches('L').parse().ok()).collect()
}

fn dtype(descr: &str) -> Result<Option<Dtype>, String> {
    if descr.starts_with('>') && !descr.ends_with('1') {
        return Err(format!("its type {descr} is big-endian; save x.astype('<{}')", &descr[1..]));
    }
    Ok(NAMES.iter().find(|(name, _)| *name == descr.get(1..).unwrap_or_default()).map(|n| n.1))
}

const NAMES: [(&str, Dtype); 12] = [
    ("f8", Dtype::F64),
    ("f4", Dtype::F32),
    ("f2", Dtype::F16),
    ("i8", Dtype::I64),
    ("i4", Dtype::I32),
    ("i2", Dtype::I16),
    ("i1", Dtype::I8),
    ("u8", Dtype::U64),
    ("u4", Dtype::U32),
    ("u2", Dtype::U16),
    ("u1", Dtype::U8),
    ("b1", Dtype::Bool),
];

/// True when a file of that NumPy type can hold elements of `dtype`: the same type, or for types
/// that NumPy lacks the unsigned integer, or raw bytes, of the same width.
pub(crate) fn holds(array: &Array<'_>, dtype: Dtype) -> bool {
    let raw = [format!("u{}", dtype.bits() / 8), format!("V{}", dtype.bits() / 8)];
    let lacking = !NAMES.iter().any(|(_, known)| *known == dtype);
    array.dtype == Some(dtype)
        || lacking && raw.iter().any(|raw| array.descr.get(1..) == Some(raw.as_str()))
}

/// The bytes of a file in front of the data.
pub(crate) fn header(dtype: Dtype, shape: &[u64]) -> Vec<u8> {
    let name = NAMES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name);
    let name = name.map_or_else(|| format!("u{}", (dtype.bits() / 8).max(1)), str::to_owned);
    let order = if name.ends_with('1') { '|' } else { '<' };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let dict =
        format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({extents}), }}");
    let bare = MAGIC.len() + 4 + dict.len() + 1;
    let padding = bare.next_multiple_of(ALIGN) - bare;
    let text = format!("{dict}{}\n", " ".repeat(padding));
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
    [MAGIC, &[1, 0], &length, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::{header, holds, read};
    use pipeline::dtype::Dtype;

    fn file(version: u8, dict: &str, data: &[u8]) -> Vec<u8> {
        let length = dict.len() as u32;
        let width = if version == 1 { 2 } else { 4 };
        let length = &length.to_le_bytes()[..width];
        [b"\x93NUMPY", &[version, 0][..], length, dict.as_bytes(), data].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        for (dtype, shape) in [
            (Dtype::F32, vec![2, 3]),
            (Dtype::U8, vec![5]),
            (Dtype::Bf16, vec![]),
            (Dtype::I64, vec![1]),
        ] {
            let mut bytes = header(dtype, &shape);
            assert_eq!(bytes.len() % 64, 0);
            bytes.extend([1, 2, 3]);
            let array = read(&bytes).unwrap();
            assert!(holds(&array, dtype), "{dtype:?}");
            assert_eq!((array.shape, array.data), (shape, &[1, 2, 3][..]));
        }
    }

    #[test]
    fn odd_files_are_refused() {
        let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        for version in [1, 2, 3] {
            assert_eq!(read(&file(version, dict, &[7])).unwrap().shape, [3]);
        }
        for (bytes, part) in [
            (b"PK".to_vec(), "no .npy"),
            (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), "cut short"),
            (file(1, &dict.replace("False", "True"), &[]), "Fortran"),
            (file(1, &dict.replace('<', ">"), &[]), "big-endian"),
            (file(1, "{'descr': [('a', '<f4')], }", &[]), "structured"),
            (file(1, &dict.replace("(3,)", "(-3,)"), &[]), "no shape"),
            (b"\x93NUMPY".to_vec(), "cut short"),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let odd = file(1, &dict.replace("f4", "c8"), &[]);
        assert_eq!(read(&odd).unwrap().dtype, None);
    }
}
