//! Cuts SQL text into tokens and statements. It knows quotes, comments and parameters, and nothing of grammar.

use super::SqlError;

/// One token and where its text lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    start: usize,
    end: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A key word or unquoted name, in lower case.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// A number as written.
    Number(String),
    /// A string literal's content.
    Text(String),
    /// `$n`.
    Parameter(u16),
    /// Punctuation and operators.
    Symbol(&'static str),
}

/// One statement out of a query text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut<'a> {
    /// Its text, trimmed, without the semicolon.
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<Token>,
}

impl Token {
    /// The token as written.
    pub(crate) fn text<'a>(&self, sql: &'a str) -> &'a str {
        sql.get(self.start..self.end).unwrap_or_default()
    }
}

/// Longer ones first, so that `::` is not read as two colons.
const SYMBOLS: [&str; 20] = [
    "::", "<>", "!=", "<=", ">=", "||", "(", ")", ",", ";", ".", "*", "+", "-", "/", "%", "=", "<", ">", "[",
];

/// Cuts a query text into its statements; empty ones are left out.
pub(crate) fn statements(sql: &str) -> Result<Vec<Cut<'_>>, SqlError> {
    let mut cuts = Vec::new();
    let mut tokens: Vec<Token> = Vec::new();
    let mut finish = |tokens: &mut Vec<Token>| {
        let tokens = std::mem::take(tokens);
        if let (Some(first), Some(last)) = (tokens.first(), tokens.last()) {
            cuts.push(Cut {
                text: sql.get(first.start..last.end).unwrap_or_default(),
                tokens,
            });
        }
    };
    for token in tokenize(sql)? {
        if token.kind == TokenKind::Symbol(";") {
            finish(&mut tokens);
        } else {
            tokens.push(token);
        }
    }
    finish(&mut tokens);
    Ok(cuts)
}

fn tokenize(sql: &str) -> Result<Vec<Token>, SqlError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(next) = sql[at..].chars().next() {
        let start = at;
        let rest = &sql[at..];
        let kind = if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        } else if rest.starts_with("--") {
            at += rest.find('\n').map_or(rest.len(), |end| end + 1);
            continue;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment
                .find("*/")
                .ok_or_else(|| SqlError::new("42601", "unterminated /* comment"))?;
            at += end + 4;
            continue;
        } else if next.is_alphabetic() || next == '_' {
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
                .unwrap_or(rest.len());
            at += end;
            TokenKind::Word(rest[..end].to_lowercase())
        } else if next.is_ascii_digit() {
            let end = rest
                .find(|c: char| !(c.is_ascii_digit() || c == '.'))
                .unwrap_or(rest.len());
            at += end;
            TokenKind::Number(rest[..end].to_owned())
        } else if next == '\'' || next == '"' {
            let (content, length) = quoted(rest, next)?;
            at += length;
            if next == '"' {
                TokenKind::Quoted(content)
            } else {
                TokenKind::Text(content)
            }
        } else if let Some(digits) = rest.strip_prefix('$') {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let number = digits[..end].parse().map_err(|_| SqlError::syntax("$"))?;
            if number == 0 {
                return Err(SqlError::new("42P02", "there is no parameter $0"));
            }
            at += 1 + end;
            TokenKind::Parameter(number)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            at += symbol.len();
            TokenKind::Symbol(symbol)
        } else {
            return Err(SqlError::syntax(&rest[..next.len_utf8()]));
        };
        tokens.push(Token { kind, start, end: at });
    }
    Ok(tokens)
}

/// What stands between quotes, with doubled quotes undone, and how many bytes it took.
fn quoted(text: &str, quote: char) -> Result<(String, usize), SqlError> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            content.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            content.push(quote);
        } else {
            return Ok((content, at + 1));
        }
    }
    Err(SqlError::new("42601", "unterminated quoted string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_semicolons_outside_of_quotes_and_comments() {
        let sql = "SELECT 'a;b' ; -- no; not here\n/* nor ; here */ SELECT \"x;y\";;";
        let texts: Vec<_> = statements(sql).unwrap().into_iter().map(|cut| cut.text).collect();
        assert_eq!(texts, ["SELECT 'a;b'", "SELECT \"x;y\""]);
    }

    #[test]
    fn odd_texts_are_errors_and_not_panics() {
        for sql in ["'open", "\"open", "/* open", "$", "$0", "$99999", "SELECT §", "{"] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
