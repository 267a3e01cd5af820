//! The conversions of C's `printf`, as far as device code can use them.
//!
//! Arguments and strings come from two closures: where they lie is the executor's business.

/// Widest field and longest precision that are honoured.
const FIELD_MAX: usize = 512;

/// One conversion such as `%-8.3f`.
#[derive(Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    length: String,
    kind: char,
}

/// Formats one call. `argument` gives the bits of the next argument of 4 or 8 bytes, `text` the
/// string at an address; where either has nothing, `(?)` is shown.
pub(crate) fn format(
    template: &str,
    argument: &mut dyn FnMut(u32) -> Option<u64>,
    text: &dyn Fn(u64) -> Option<String>,
) -> String {
    let mut out = String::new();
    let mut rest = template.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        match read(&mut rest, argument) {
            Some(conversion) => match convert(&conversion, argument, text) {
                Some(body) => out.push_str(&conversion.padded(&body)),
                None => out.push_str("(?)"),
            },
            None => out.push('%'),
        }
    }
    out
}

/// Reads what follows a percent sign.
fn read(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    argument: &mut dyn FnMut(u32) -> Option<u64>,
) -> Option<Conversion> {
    let mut found = Conversion::default();
    while let Some(flag) = rest.next_if(|c| "-+ #0".contains(*c)) {
        match flag {
            '-' => found.left = true,
            '+' => found.plus = true,
            ' ' => found.space = true,
            '#' => found.alternate = true,
            _ => found.zero = true,
        }
    }
    match number(rest, argument) {
        Some(width) if width < 0 => {
            (found.left, found.width) = (true, width.unsigned_abs() as usize);
        }
        Some(width) => found.width = width as usize,
        None => {}
    }
    if rest.next_if_eq(&'.').is_some() {
        let precision = number(rest, argument).unwrap_or(0);
        found.precision = usize::try_from(precision).ok();
    }
    while let Some(length) = rest.next_if(|c| "hlLjzt".contains(*c)) {
        found.length.push(length);
    }
    found.width = found.width.min(FIELD_MAX);
    found.precision = found.precision.map(|precision| precision.min(FIELD_MAX));
    found.kind = rest.next()?;
    Some(found)
}

/// A number in the template, or `*`: the next argument.
fn number(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    argument: &mut dyn FnMut(u32) -> Option<u64>,
) -> Option<i64> {
    if rest.next_if_eq(&'*').is_some() {
        return argument(4).map(|bits| i64::from(bits as u32 as i32));
    }
    let mut value = None;
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
        value = Some((value.unwrap_or(0_i64) * 10 + i64::from(digit)).min(1 << 20));
        rest.next();
    }
    value
}

fn convert(
    conversion: &Conversion,
    argument: &mut dyn FnMut(u32) -> Option<u64>,
    text: &dyn Fn(u64) -> Option<String>,
) -> Option<String> {
    let long = conversion.length.contains(['l', 'j', 'z', 't']);
    let bytes = if long { 8 } else { 4 };
    Some(match conversion.kind {
        'd' | 'i' => conversion.signed(argument(bytes)?, bytes),
        'u' | 'x' | 'X' | 'o' => conversion.unsigned(argument(bytes)?, bytes),
        'c' => char::from(argument(4)? as u8).to_string(),
        'p' => format!("{:#x}", argument(8)?),
        's' => {
            let whole = text(argument(8)?).unwrap_or_else(|| "(null)".to_owned());
            whole.chars().take(conversion.precision.unwrap_or(usize::MAX)).collect()
        }
        kind if "fFeEgGaA".contains(kind) => conversion.float(f64::from_bits(argument(8)?)),
        _ => return None,
    })
}

impl Conversion {
    fn signed(&self, bits: u64, bytes: u32) -> String {
        let value = match (self.length.as_str(), bytes) {
            ("hh", _) => i64::from(bits as i8),
            ("h", _) => i64::from(bits as i16),
            (_, 4) => i64::from(bits as i32),
            _ => bits as i64,
        };
        format!("{}{}", self.sign(value < 0), self.digits(value.unsigned_abs().to_string()))
    }

    fn unsigned(&self, bits: u64, bytes: u32) -> String {
        let value = match (self.length.as_str(), bytes) {
            ("hh", _) => bits & 0xff,
            ("h", _) => bits & 0xffff,
            (_, 4) => bits & 0xffff_ffff,
            _ => bits,
        };
        let prefix = if self.alternate && value != 0 { self.kind } else { 'u' };
        match (self.kind, prefix) {
            ('x', 'x') => format!("0x{}", self.digits(format!("{value:x}"))),
            ('x', _) => self.digits(format!("{value:x}")),
            ('X', 'X') => format!("0X{}", self.digits(format!("{value:X}"))),
            ('X', _) => self.digits(format!("{value:X}")),
            ('o', 'o') => format!("0{}", self.digits(format!("{value:o}"))),
            ('o', _) => self.digits(format!("{value:o}")),
            _ => self.digits(value.to_string()),
        }
    }

    /// At least as many digits as the precision asks for.
    fn digits(&self, digits: String) -> String {
        format!("{digits:0>width$}", width = self.precision.unwrap_or(1))
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn float(&self, value: f64) -> String {
        let sign = self.sign(value.is_sign_negative());
        let size = value.abs();
        let precision = self.precision.unwrap_or(6);
        let body = match self.kind.to_ascii_lowercase() {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => "inf".to_owned(),
            'f' => format!("{size:.precision$}"),
            'e' => scientific(size, precision),
            'g' => self.general(size, precision.max(1)),
            _ => hexadecimal(size),
        };
        let body = if self.kind.is_ascii_uppercase() { body.to_ascii_uppercase() } else { body };
        format!("{sign}{body}")
    }

    /// `%g`: the shorter of the other two, without trailing zeros.
    fn general(&self, size: f64, precision: usize) -> String {
        let tried = format!("{size:.digits$e}", digits = precision - 1);
        let exponent = tried.rsplit('e').next().and_then(|text| text.parse::<i64>().ok());
        let exponent = exponent.unwrap_or(0);
        let fixed = (-4..precision as i64).contains(&exponent);
        let text = match fixed {
            true => format!("{size:.digits$}", digits = (precision as i64 - 1 - exponent) as usize),
            false => scientific(size, precision - 1),
        };
        if self.alternate || !text.contains('.') {
            return text;
        }
        let (mantissa, tail) = text.split_once('e').unwrap_or((&text, ""));
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        if fixed { mantissa.to_owned() } else { format!("{mantissa}e{tail}") }
    }

    fn padded(&self, body: &str) -> String {
        let missing = self.width.saturating_sub(body.chars().count());
        let numeric = "diuxXofFeEgGaA".contains(self.kind) && !body.contains("in");
        let exact = self.precision.is_some() && "diuxXo".contains(self.kind);
        if self.left {
            return format!("{body}{}", " ".repeat(missing));
        }
        if self.zero && numeric && !exact && !body.contains("nan") {
            let sign = body.chars().take_while(|c| "+- ".contains(*c)).count();
            return format!("{}{}{}", &body[..sign], "0".repeat(missing), &body[sign..]);
        }
        format!("{}{body}", " ".repeat(missing))
    }
}

/// `1.5e+03`: a sign and at least two digits in the exponent.
fn scientific(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `0x1.8p+1`
fn hexadecimal(size: f64) -> String {
    let bits = size.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (lead, exponent) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, exponent - 1023),
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::format;

    fn print(template: &str, arguments: &[u64]) -> String {
        let mut left = arguments.iter().copied();
        format(template, &mut |_| left.next(), &|address| (address == 7).then(|| "text".to_owned()))
    }

    #[test]
    fn conversions_print_as_in_c() {
        let float = f64::to_bits;
        for (template, arguments, expected) in [
            ("plain 100%%", vec![], "plain 100%"),
            ("%d|%5d|%-5d|%05d|%+d", vec![42, 42, 42, 42, 42], "42|   42|42   |00042|+42"),
            ("%d %hhd %u", vec![0xffff_ffff, 0x80, 0xffff_ffff], "-1 -128 4294967295"),
            ("%lld %llu", vec![u64::MAX, u64::MAX], "-1 18446744073709551615"),
            ("%x %X %#x %#o %.4x", vec![255, 255, 255, 8, 255], "ff FF 0xff 010 00ff"),
            ("%c%c", vec![u64::from(b'h'), u64::from(b'i')], "hi"),
            (
                "%f %.2f %8.3f|",
                vec![float(1.5), float(-2.345), float(3.0)],
                "1.500000 -2.35    3.000|",
            ),
            ("%e %.1E", vec![float(12345.678), float(0.00012)], "1.234568e+04 1.2E-04"),
            ("%g %g %g", vec![float(0.1), float(1e10), float(100000.0)], "0.1 1e+10 100000"),
            ("%g %g %.3g", vec![float(1e-5), float(0.0), float(1234.0)], "1e-05 0 1.23e+03"),
            (
                "%f %5f %05f",
                vec![float(f64::NAN), float(-f64::INFINITY), float(1.0)],
                "nan  -inf 1.000000",
            ),
            ("%a", vec![float(3.0)], "0x1.8p+1"),
            ("%s %.2s %s", vec![7, 7, 9], "text te (null)"),
            ("%*d|%-*d|", vec![4, 1, 4, 2], "   1|2   |"),
            ("%p", vec![4096], "0x1000"),
            ("%d %y %", vec![], "(?) (?) %"),
        ] {
            assert_eq!(print(template, &arguments), expected, "{template}");
        }
    }
}
