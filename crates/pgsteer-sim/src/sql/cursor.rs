//! Walks over the tokens of a statement, and parses the expressions in it.

use super::SqlError;
use super::expression::Expression;
use super::token::{Token, TokenKind};
use super::value::{Kind, Value};

/// Deeper nesting is refused, so that a text of brackets cannot exhaust the stack.
const DEEPEST: u32 = 50;
/// So are statements with more operators and casts, since each may nest the expression one deeper.
const MOST_OPERATORS: u32 = 200;

/// Walks over the tokens of one statement.
pub(crate) struct Cursor<'a> {
    sql: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: u32,
    operators: u32,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(sql: &'a str, tokens: &'a [Token]) -> Self {
        Cursor {
            sql,
            tokens,
            at: 0,
            depth: 0,
            operators: 0,
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
            return Err(too_deep());
        }
        let mut left = self.conjunction()?;
        while self.word("or") {
            self.count_operator()?;
            left = Expression::Binary("or", Box::new(left), Box::new(self.conjunction()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn count_operator(&mut self) -> Result<(), SqlError> {
        self.operators += 1;
        if self.operators > MOST_OPERATORS {
            Err(too_deep())
        } else {
            Ok(())
        }
    }

    fn conjunction(&mut self) -> Result<Expression, SqlError> {
        let mut left = self.negation()?;
        while self.word("and") {
            self.count_operator()?;
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
            self.count_operator()?;
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, SqlError> {
        let mut left = self.unary()?;
        while let Some(operator) = self.one_of(&["*", "/", "%"]) {
            self.count_operator()?;
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
            self.count_operator()?;
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
            "case" => {
                self.expect_word("when")?;
                let condition = self.expression()?;
                self.expect_word("then")?;
                let one = self.expression()?;
                self.expect_word("else")?;
                let other = self.expression()?;
                self.expect_word("end")?;
                return Ok(Expression::Case(Box::new([condition, one, other])));
            }
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
const RESERVED: [&str; 20] = [
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
    "when",
    "then",
    "else",
    "end",
];

fn too_deep() -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
}

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
