//! What an echo server can be told to do wrong, and how often.

use std::fmt;
use std::str::FromStr;

/// One way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody listens: a connect is refused. The address stays taken.
    Refuse,
    /// Connections are accepted and closed at once.
    CloseAtAccept,
    /// The request is read, and so is everything after it; nothing is ever answered.
    Hang,
    /// The request is read and the connection closed without an answer.
    Close,
    /// The answer ends after this many bytes, the header's four included, and the connection is closed.
    Cut(u32),
    /// One byte of the answer's payload is another one. Empty payloads stay as they are.
    Corrupt,
    /// The answer is bytes that are no frame; the connection stays open.
    Garbage,
    /// The answer's header announces the longest length there is; the connection stays open.
    Oversize,
    /// The answer comes a byte at a time, this many milliseconds apart.
    Trickle(u32),
    /// The answer comes twice in a row.
    Twice,
}

/// The names, with whether a number belongs to them.
const NAMES: [(&str, bool); 10] = [
    ("refuse", false),
    ("close-at-accept", false),
    ("hang", false),
    ("close", false),
    ("cut", true),
    ("corrupt", false),
    ("garbage", false),
    ("oversize", false),
    ("trickle", true),
    ("twice", false),
];

/// A way to fail and the share of requests (of connections, for [`Kind::CloseAtAccept`]) that it befalls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// How often, 0 to 1.
    pub share: f64,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, share) = match text.split_once('@') {
            Some((what, share)) => (what, share_of(share)?),
            None => (text, 1.0),
        };
        let (name, number) = match what.split_once('=') {
            Some((name, number)) => (name, Some(number)),
            None => (what, None),
        };
        let kind = kind(name, number)?;
        if kind == Kind::Refuse && share < 1.0 {
            return Err(
                "`refuse` is for all connections or none; `close-at-accept` takes a share".to_owned(),
            );
        }
        Ok(Fault { kind, share })
    }
}

fn share_of(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("the share `{text}` is not above 0 and at most 1")),
    }
}

fn kind(name: &str, number: Option<&str>) -> Result<Kind, String> {
    let Some((_, wants_number)) = NAMES.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(name));
    };
    let number = match (wants_number, number) {
        (true, Some(number)) => number
            .parse::<u32>()
            .map_err(|_| format!("`{name}` takes a whole number, not `{number}`"))?,
        (true, None) => return Err(format!("`{name}` takes a number: `{name}=N`")),
        (false, Some(_)) => return Err(format!("`{name}` takes no number")),
        (false, None) => 0,
    };
    match name {
        "refuse" => Ok(Kind::Refuse),
        "close-at-accept" => Ok(Kind::CloseAtAccept),
        "hang" => Ok(Kind::Hang),
        "close" => Ok(Kind::Close),
        "cut" => Ok(Kind::Cut(number)),
        "corrupt" => Ok(Kind::Corrupt),
        "garbage" => Ok(Kind::Garbage),
        "oversize" => Ok(Kind::Oversize),
        "trickle" => Ok(Kind::Trickle(number)),
        "twice" => Ok(Kind::Twice),
        other => Err(unknown(other)),
    }
}

fn unknown(name: &str) -> String {
    let names = NAMES.map(|(known, wants_number)| {
        if wants_number {
            format!("{known}=N")
        } else {
            known.to_owned()
        }
    });
    let nearest = NAMES
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(known, name), *known))
        .filter(|(distance, _)| *distance <= 2)
        .min();
    let meant = nearest
        .map(|(_, known)| format!(", did you mean `{known}`?"))
        .unwrap_or_default();
    format!(
        "there is no fault `{name}`{meant} (there are {})",
        names.join(", ")
    )
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Refuse => f.write_str("refuse")?,
            Kind::CloseAtAccept => f.write_str("close-at-accept")?,
            Kind::Hang => f.write_str("hang")?,
            Kind::Close => f.write_str("close")?,
            Kind::Cut(bytes) => write!(f, "cut={bytes}")?,
            Kind::Corrupt => f.write_str("corrupt")?,
            Kind::Garbage => f.write_str("garbage")?,
            Kind::Oversize => f.write_str("oversize")?,
            Kind::Trickle(millis) => write!(f, "trickle={millis}")?,
            Kind::Twice => f.write_str("twice")?,
        }
        if self.share < 1.0 {
            write!(f, "@{}", self.share)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_prints_as_what_it_is_read_from() {
        let texts = [
            "refuse",
            "close-at-accept@0.5",
            "hang",
            "close@0.25",
            "cut=6@0.01",
            "corrupt",
            "garbage",
            "oversize",
            "trickle=5",
            "twice@0.001",
        ];

        for text in texts {
            let fault: Fault = text.parse().expect(text);

            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be_one() {
        let cases = [
            ("hnag", "did you mean `hang`?"),
            ("explode", "there are refuse, close-at-accept, hang"),
            ("cut", "`cut=N`"),
            ("cut=many", "a whole number, not `many`"),
            ("hang=3", "takes no number"),
            ("hang@2", "above 0 and at most 1"),
            ("hang@0", "above 0 and at most 1"),
            ("refuse@0.5", "`close-at-accept` takes a share"),
        ];

        for (text, told) in cases {
            let error = text.parse::<Fault>().expect_err(text);

            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
