//! What a fake server says no with, or warns with.

use super::FakePg;

/// Which fields of the message carry the severity. Servers since 9.6 send both: `S` in the server's language, `V`
/// never translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// `S` and `V`.
    #[default]
    Both,
    /// Only `S`, as old servers do.
    OnlyS,
    /// Only `V`.
    OnlyV,
    /// Neither.
    Nowhere,
}

/// The fields of an ErrorResponse or a NoticeResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    severity: String,
    localized: Option<String>,
    shown: Severity,
    sqlstate: Option<String>,
    message: String,
    detail: Option<String>,
}

impl Refusal {
    /// One of this severity: `FATAL`, `PANIC`, `ERROR`, `WARNING`, …
    #[must_use]
    pub fn new(severity: &str, sqlstate: &str, message: &str) -> Self {
        Self {
            severity: severity.to_owned(),
            localized: None,
            shown: Severity::Both,
            sqlstate: Some(sqlstate.to_owned()),
            message: message.to_owned(),
            detail: None,
        }
    }

    /// One of severity `FATAL`.
    #[must_use]
    pub fn fatal(sqlstate: &str, message: &str) -> Self {
        Self::new("FATAL", sqlstate, message)
    }

    /// One of severity `WARNING`.
    #[must_use]
    pub fn warning(sqlstate: &str, message: &str) -> Self {
        Self::new("WARNING", sqlstate, message)
    }

    /// With a detail.
    #[must_use]
    pub fn detail(mut self, detail: &str) -> Self {
        self.detail = Some(detail.to_owned());
        self
    }

    /// With the severity in these fields only.
    #[must_use]
    pub fn severity_in(mut self, shown: Severity) -> Self {
        self.shown = shown;
        self
    }

    /// With another word in the translated field `S`, as a server in another language has it: `ФАТАЛ`, `FATALE`.
    #[must_use]
    pub fn translated(mut self, severity: &str) -> Self {
        self.localized = Some(severity.to_owned());
        self
    }

    /// Without a SQLSTATE, which no real server leaves out.
    #[must_use]
    pub fn without_sqlstate(mut self) -> Self {
        self.sqlstate = None;
        self
    }

    /// As ErrorResponse.
    pub(super) fn error(&self) -> Vec<u8> {
        FakePg::frame(b'E', &self.fields())
    }

    /// As NoticeResponse.
    pub(super) fn notice(&self) -> Vec<u8> {
        FakePg::frame(b'N', &self.fields())
    }

    fn fields(&self) -> Vec<u8> {
        let in_s = matches!(self.shown, Severity::Both | Severity::OnlyS);
        let in_v = matches!(self.shown, Severity::Both | Severity::OnlyV);
        let translated = self.localized.as_ref().unwrap_or(&self.severity);
        let fields = [
            (b'S', in_s.then_some(translated)),
            (b'V', in_v.then_some(&self.severity)),
            (b'C', self.sqlstate.as_ref()),
            (b'M', Some(&self.message)),
            (b'D', self.detail.as_ref()),
        ];
        let mut bytes = Vec::new();
        for (kind, value) in fields {
            if let Some(value) = value {
                bytes.push(kind);
                bytes.extend_from_slice(value.as_bytes());
                bytes.push(0);
            }
        }
        bytes.push(0);
        bytes
    }
}
