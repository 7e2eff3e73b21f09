//! Expressions: how they are parsed and what type they have. A parameter's type comes from a cast on it or from
//! where it stands, and is text if nothing says more.

use super::SqlError;
use super::token::{Token, TokenKind};
use super::value::{Column, Kind, Value};

/// Deeper nesting is refused, so that a text of brackets cannot exhaust the stack.
const DEEPEST: u32 = 50;

/// Something that has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Literal(Value, Kind),
    Parameter(u16),
    Column(String),
    Cast(Box<Expression>, Kind),
    Negative(Box<Expression>),
    Not(Box<Expression>),
    IsNull {
        of: Box<Expression>,
        negated: bool,
    },
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Call {
        name: String,
        arguments: Vec<Expression>,
    },
    CountAll,
}

/// Walks over the tokens of one statement.
pub(crate) struct Cursor<'a> {
    sql: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(sql: &'a str, tokens: &'a [Token]) -> Self {
        Cursor {
            sql,
            tokens,
            at: 0,
            depth: 0,
        }
    }

    pub(crate) fn peek(&self) -> Option<&'a TokenKind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    pub(crate) fn next(&mut self) -> Option<&'a TokenKind> {
        let kind = self.peek()?;
        self.at += 1;
        Some(kind)
    }

    /// The syntax error at the token before this point, or at the end.
    pub(crate) fn wrong(&self) -> SqlError {
        SqlError::syntax(self.tokens.get(self.at).map_or("", |token| token.text(self.sql)))
    }

    /// Takes the word, if it is next.
    pub(crate) fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(TokenKind::Word(next)) if next == word);
        self.at += usize::from(found);
        found
    }

    /// Takes the words, if they are all next.
    pub(crate) fn words(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        let found = words.iter().all(|word| self.word(word));
        if !found {
            self.at = start;
        }
        found
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Result<(), SqlError> {
        if self.word(word) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    /// Takes the symbol, if it is next.
    pub(crate) fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(TokenKind::Symbol(next)) if *next == symbol);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect_symbol(&mut self, symbol: &str) -> Result<(), SqlError> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    /// A name, quoted or not.
    pub(crate) fn name(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(TokenKind::Word(name) | TokenKind::Quoted(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    /// That nothing is left.
    pub(crate) fn end(&self) -> Result<(), SqlError> {
        if self.at == self.tokens.len() {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    pub(crate) fn expression(&mut self) -> Result<Expression, SqlError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(SqlError::new("54001", "stack depth limit exceeded"));
        }
        let mut left = self.conjunction()?;
        while self.word("or") {
            left = Expression::Binary("or", Box::new(left), Box::new(self.conjunction()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Expression, SqlError> {
        let mut left = self.negation()?;
        while self.word("and") {
            left = Expression::Binary("and", Box::new(left), Box::new(self.negation()?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expression, SqlError> {
        let mut negations = 0;
        while self.word("not") {
            negations += 1;
        }
        let inner = self.comparison()?;
        Ok(if negations % 2 == 1 {
            Expression::Not(Box::new(inner))
        } else {
            inner
        })
    }

    fn comparison(&mut self) -> Result<Expression, SqlError> {
        let left = self.sum()?;
        if self.word("is") {
            let negated = self.word("not");
            self.expect_word("null")?;
            return Ok(Expression::IsNull {
                of: Box::new(left),
                negated,
            });
        }
        for (symbol, operator) in [
            ("=", "="),
            ("<>", "<>"),
            ("!=", "<>"),
            ("<=", "<="),
            (">=", ">="),
            ("<", "<"),
            (">", ">"),
        ] {
            if self.symbol(symbol) {
                return Ok(Expression::Binary(
                    operator,
                    Box::new(left),
                    Box::new(self.sum()?),
                ));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expression, SqlError> {
        let mut left = self.product()?;
        while let Some(operator) = self.one_of(&["+", "-", "||"]) {
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, SqlError> {
        let mut left = self.unary()?;
        while let Some(operator) = self.one_of(&["*", "/", "%"]) {
            left = Expression::Binary(operator, Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    fn one_of(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        symbols.iter().copied().find(|symbol| self.symbol(symbol))
    }

    fn unary(&mut self) -> Result<Expression, SqlError> {
        let mut signs = 0;
        while self.symbol("-") {
            signs += 1;
        }
        let mut inner = self.primary()?;
        while self.symbol("::") {
            inner = Expression::Cast(Box::new(inner), self.kind()?);
        }
        Ok(if signs % 2 == 1 {
            Expression::Negative(Box::new(inner))
        } else {
            inner
        })
    }

    fn kind(&mut self) -> Result<Kind, SqlError> {
        if self.word("pg_catalog") {
            self.expect_symbol(".")?;
        }
        let name = self.name()?;
        if name == "double" {
            self.expect_word("precision")?;
        }
        Kind::from_name(&name)
            .ok_or_else(|| SqlError::new("42704", format!("type \"{name}\" does not exist")))
    }

    fn primary(&mut self) -> Result<Expression, SqlError> {
        if self.symbol("(") {
            let inner = self.expression()?;
            self.expect_symbol(")")?;
            return Ok(inner);
        }
        match self.peek() {
            Some(TokenKind::Number(text)) => {
                self.at += 1;
                number(text)
            }
            Some(TokenKind::Text(text)) => {
                self.at += 1;
                Ok(Expression::Literal(Value::Text(text.clone()), Kind::Text))
            }
            Some(TokenKind::Parameter(number)) => {
                self.at += 1;
                Ok(Expression::Parameter(*number))
            }
            Some(TokenKind::Quoted(name)) => {
                self.at += 1;
                Ok(Expression::Column(name.clone()))
            }
            Some(TokenKind::Word(word)) => self.named(word),
            _ => Err(self.wrong()),
        }
    }

    /// Something that begins with a word: a constant, a function or a column.
    fn named(&mut self, word: &'a str) -> Result<Expression, SqlError> {
        if RESERVED.contains(&word) {
            return Err(self.wrong());
        }
        self.at += 1;
        match word {
            "null" => return Ok(Expression::Literal(Value::Null, Kind::Text)),
            "true" | "false" => return Ok(Expression::Literal(Value::Bool(word == "true"), Kind::Bool)),
            "cast" => {
                self.expect_symbol("(")?;
                let inner = self.expression()?;
                self.expect_word("as")?;
                let kind = self.kind()?;
                self.expect_symbol(")")?;
                return Ok(Expression::Cast(Box::new(inner), kind));
            }
            "current_user" | "session_user" | "user" | "current_catalog" => {
                return Ok(Expression::Call {
                    name: word.to_owned(),
                    arguments: Vec::new(),
                });
            }
            _ => {}
        }
        let mut name = word.to_owned();
        // `pg_catalog.f()` and `ledger.id`: only the last part matters here.
        while self.symbol(".") {
            name = self.name()?;
        }
        if !self.symbol("(") {
            return Ok(Expression::Column(name));
        }
        if name == "count" && self.symbol("*") {
            self.expect_symbol(")")?;
            return Ok(Expression::CountAll);
        }
        let arguments = self.arguments()?;
        Ok(Expression::Call { name, arguments })
    }

    /// Arguments up to the closing bracket.
    pub(crate) fn arguments(&mut self) -> Result<Vec<Expression>, SqlError> {
        let mut arguments = Vec::new();
        if self.symbol(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.symbol(")") {
                return Ok(arguments);
            }
            self.expect_symbol(",")?;
        }
    }
}

/// Words that begin or join clauses and so cannot be a column.
const RESERVED: [&str; 17] = [
    "select",
    "from",
    "where",
    "limit",
    "order",
    "group",
    "having",
    "union",
    "and",
    "or",
    "as",
    "is",
    "on",
    "into",
    "values",
    "returning",
    "then",
];

fn number(text: &str) -> Result<Expression, SqlError> {
    if let Ok(number) = text.parse::<i64>() {
        let kind = if i32::try_from(number).is_ok() {
            Kind::Int4
        } else {
            Kind::Int8
        };
        return Ok(Expression::Literal(Value::Int(number), kind));
    }
    let number = text.parse().map_err(|_| SqlError::syntax(text))?;
    Ok(Expression::Literal(Value::Float(number), Kind::Float8))
}

/// What is known of the parameters of a statement while its types are worked out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(pub(crate) Vec<Option<Kind>>);

impl Parameters {
    /// The type of parameter `number`; the first place that says one decides.
    fn note(&mut self, number: u16, kind: Option<Kind>) -> Option<Kind> {
        let at = usize::from(number).saturating_sub(1);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        if self.0[at].is_none() {
            self.0[at] = kind;
        }
        self.0[at]
    }
}

/// The type of an expression. `expected` is what the place it stands in wants of a parameter.
pub(crate) fn infer(
    expression: &Expression,
    expected: Option<Kind>,
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<Kind, SqlError> {
    Ok(match expression {
        Expression::Literal(_, kind) => *kind,
        Expression::Parameter(number) => parameters.note(*number, expected).unwrap_or(Kind::Text),
        Expression::Column(name) => columns
            .iter()
            .find(|column| column.name == *name)
            .map(|column| column.kind)
            .ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" does not exist")))?,
        Expression::Cast(inner, kind) => {
            infer(inner, Some(*kind), columns, parameters)?;
            *kind
        }
        Expression::Negative(inner) => infer(inner, expected.or(Some(Kind::Int4)), columns, parameters)?,
        Expression::Not(inner) => infer(inner, Some(Kind::Bool), columns, parameters)?,
        Expression::IsNull { of, .. } => {
            infer(of, None, columns, parameters)?;
            Kind::Bool
        }
        Expression::CountAll => Kind::Int8,
        Expression::Binary(operator, left, right) => {
            let (left, right) = infer_sides(operator, left, right, columns, parameters)?;
            result_kind(operator, left, right)?
        }
        Expression::Call { name, arguments } => {
            let (wanted, kind) = signature(name, arguments.len())?;
            let mut first = None;
            for (at, argument) in arguments.iter().enumerate() {
                let found = infer(argument, wanted.get(at).copied(), columns, parameters)?;
                first = first.or(Some(found));
            }
            kind.or(first).unwrap_or(Kind::Text)
        }
    })
}

fn infer_sides(
    operator: &str,
    left: &Expression,
    right: &Expression,
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<(Kind, Kind), SqlError> {
    let common = match operator {
        "and" | "or" => Some(Kind::Bool),
        "||" => Some(Kind::Text),
        _ => None,
    };
    // A parameter takes the type of what it is combined with, so the other side is asked first.
    if matches!(left, Expression::Parameter(_)) {
        let right = infer(right, common.or(Some(Kind::Int4)), columns, parameters)?;
        Ok((infer(left, common.or(Some(right)), columns, parameters)?, right))
    } else {
        let left = infer(left, common, columns, parameters)?;
        Ok((left, infer(right, common.or(Some(left)), columns, parameters)?))
    }
}

/// The type an operator gives, if it takes these.
pub(crate) fn result_kind(operator: &str, left: Kind, right: Kind) -> Result<Kind, SqlError> {
    Ok(match operator {
        "and" | "or" | "=" | "<>" | "<" | ">" | "<=" | ">=" => Kind::Bool,
        "||" => Kind::Text,
        _ if left == Kind::Float8 || right == Kind::Float8 => Kind::Float8,
        _ if left == Kind::Int8 || right == Kind::Int8 => Kind::Int8,
        // An untyped string next to a number becomes one, as in the real server.
        _ if left.is_integer() || right.is_integer() => Kind::Int4,
        _ => {
            let text = format!(
                "operator does not exist: {} {operator} {}",
                left.name(),
                right.name()
            );
            return Err(SqlError::new("42883", text));
        }
    })
}

/// What a function takes and gives; no result type means that of its first argument.
pub(crate) fn signature(name: &str, arguments: usize) -> Result<(&'static [Kind], Option<Kind>), SqlError> {
    let known: (&[Kind], Option<Kind>) = match (name, arguments) {
        ("pg_is_in_recovery", 0) => (&[], Some(Kind::Bool)),
        ("pg_backend_pid" | "inet_server_port", 0) => (&[], Some(Kind::Int4)),
        ("rig_whoami" | "version" | "inet_server_addr", 0) => (&[], Some(Kind::Text)),
        ("current_database" | "current_catalog" | "current_user" | "session_user" | "user", 0) => {
            (&[], Some(Kind::Name))
        }
        ("current_setting", 1) => (&[Kind::Text], Some(Kind::Text)),
        ("pg_sleep", 1) => (&[Kind::Float8], Some(Kind::Void)),
        ("pg_terminate_backend" | "pg_cancel_backend", 1) => (&[Kind::Int4], Some(Kind::Bool)),
        ("count", 1) => (&[], Some(Kind::Int8)),
        ("sum", 1) => (&[Kind::Int8], Some(Kind::Int8)),
        ("min" | "max", 1) => (&[], None),
        _ => {
            return Err(SqlError::new(
                "42883",
                format!("function {name}() does not exist"),
            ));
        }
    };
    Ok(known)
}
