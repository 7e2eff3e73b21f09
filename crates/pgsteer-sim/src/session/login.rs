//! The login: TLS declined, cancel requests obeyed, the startup read, the password checked, the session begun. Every
//! place where a login can be made to fail is here.

use crate::fault::{Auth, Login, LoginStage};
use crate::log::Event;
use crate::report::{SessionInfo, TransactionStatus};
use crate::sql::SqlError;
use crate::wire::backend::{self, Authentication};
use crate::wire::frontend::{First, Frontend, password, sasl_initial, take_first};

use tokio::io::AsyncReadExt;

use super::auth::Scram;
use super::io::Incoming;
use super::{Halt, Session};

/// Process ids start here, so that they are not mistaken for connection numbers.
const FIRST_PID: i64 = 10_000;

impl Session<'_> {
    /// Everything up to the first ReadyForQuery.
    pub(super) async fn log_in(&mut self) -> Result<(), Halt> {
        let (minor, parameters) = self.startup().await?;
        self.stage(LoginStage::StartupRead).await?;
        let login = self.cluster.with(self.server, |state| state.login.clone());
        if let Login::Fatal { sqlstate, message } = login {
            return Err(self.refuse(&sqlstate, &message).await);
        }
        if self.cluster.with(self.server, |state| state.read_only) {
            self.settings.fix("default_transaction_read_only", "on");
        }
        if let Err(error) = self.take_parameters(&parameters) {
            return Err(self.refuse(&error.sqlstate, &error.message).await);
        }
        self.negotiate(minor, &parameters);
        self.authenticate().await?;
        let wanted = self.cluster.credentials.database.as_ref();
        if wanted.is_some_and(|wanted| *wanted != self.database) {
            let text = format!("database \"{}\" does not exist", self.database);
            return Err(self.refuse("3D000", &text).await);
        }
        self.begin_session().await
    }

    /// Fails the login here, if it is to fail here.
    async fn stage(&mut self, stage: LoginStage) -> Result<(), Halt> {
        match self.cluster.with(self.server, |state| state.login.clone()) {
            Login::CloseAt(at) if at == stage => Err(Halt::NoSession),
            Login::HangAt(at) if at == stage => self.listen_in_silence().await.map(|never| match never {}),
            _ => Ok(()),
        }
    }

    /// Reads up to the startup message. A cancel request is obeyed and ends the connection.
    async fn startup(&mut self) -> Result<(u16, Vec<(String, String)>), Halt> {
        loop {
            match take_first(&mut self.inbox)? {
                None => match self.link.read_buf(&mut self.inbox).await {
                    Ok(0) | Err(_) => return Err(Halt::NoSession),
                    Ok(_) => {}
                },
                Some(First::Tls | First::Gss) => {
                    self.stage(LoginStage::TlsAsked).await?;
                    self.out.extend_from_slice(b"N");
                    self.flush().await?;
                }
                Some(First::Cancel { pid, key }) => {
                    self.cluster
                        .record(self.server, self.id, Event::CancelRequest { pid });
                    self.cluster.cancel(self.server, pid, key);
                    return Err(Halt::NoSession);
                }
                Some(First::Startup {
                    major: 3,
                    minor,
                    parameters,
                }) => return Ok((minor, parameters)),
                Some(First::Startup { .. }) => {
                    return Err(self.refuse("0A000", "unsupported frontend protocol").await);
                }
            }
        }
    }

    fn take_parameters(&mut self, parameters: &[(String, String)]) -> Result<(), SqlError> {
        for (name, value) in parameters {
            match name.as_str() {
                "user" => self.user.clone_from(value),
                "database" => self.database.clone_from(value),
                "replication" => {}
                "options" => {
                    for (name, value) in options(value)? {
                        self.settings.start_with(&name, &value)?;
                    }
                }
                protocol if protocol.starts_with("_pq_.") => {}
                _ => self.settings.start_with(name, value)?,
            }
        }
        if self.user.is_empty() {
            return Err(SqlError::new(
                "28000",
                "no PostgreSQL user name specified in startup packet",
            ));
        }
        if self.database.is_empty() {
            self.database.clone_from(&self.user);
        }
        self.settings.fix("session_authorization", &self.user);
        Ok(())
    }

    /// A client that asks for a newer minor version or unknown protocol options is told what there is.
    fn negotiate(&mut self, minor: u16, parameters: &[(String, String)]) {
        let names = parameters.iter().map(|(name, _)| name.as_str());
        let unknown: Vec<_> = names.filter(|name| name.starts_with("_pq_.")).collect();
        if minor > 0 || !unknown.is_empty() {
            backend::negotiate_version(&mut self.out, 0, &unknown);
        }
    }

    async fn authenticate(&mut self) -> Result<(), Halt> {
        let cluster = self.cluster;
        let known = cluster
            .credentials
            .user
            .as_ref()
            .is_none_or(|user| *user == self.user);
        let passed = match cluster.credentials.auth {
            Auth::Trust if known => true,
            Auth::Trust => {
                let text = format!("role \"{}\" does not exist", self.user);
                return Err(self.refuse("28000", &text).await);
            }
            Auth::Cleartext => {
                let given = self.ask(&Authentication::Cleartext).await?;
                password(&given) == cluster.credentials.password.as_bytes()
            }
            Auth::Md5 => {
                let salt = cluster.state().random.u32(..).to_be_bytes();
                let given = self.ask(&Authentication::Md5(salt)).await?;
                let secret = cluster.credentials.password.as_bytes();
                let expected =
                    postgres_protocol::authentication::md5_hash(self.user.as_bytes(), secret, salt);
                password(&given) == expected.as_bytes()
            }
            Auth::Scram => self.scram().await?,
        };
        if !(passed && known) {
            let text = format!("password authentication failed for user \"{}\"", self.user);
            return Err(self.refuse("28P01", &text).await);
        }
        backend::authentication(&mut self.out, &Authentication::Ok);
        Ok(())
    }

    async fn scram(&mut self) -> Result<bool, Halt> {
        let cluster = self.cluster;
        let Some(verifier) = &cluster.credentials.verifier else {
            return Ok(false);
        };
        let first = self.ask(&Authentication::Sasl("SCRAM-SHA-256")).await?;
        let (mechanism, data) = sasl_initial(first)?;
        let nonce: String = {
            let random = &mut cluster.state().random;
            (0..24).map(|_| random.alphanumeric()).collect()
        };
        let exchange = Scram::start(verifier, &data, &nonce).filter(|_| mechanism == "SCRAM-SHA-256");
        let Some(exchange) = exchange else {
            return Err(Halt::Nonsense("malformed SCRAM message"));
        };
        let last = self
            .ask(&Authentication::SaslContinue(exchange.server_first()))
            .await?;
        let Some(answer) = exchange.finish(&last) else {
            return Ok(false);
        };
        backend::authentication(&mut self.out, &Authentication::SaslFinal(&answer));
        Ok(true)
    }

    /// Sends a step of the authentication and reads the answer.
    async fn ask(&mut self, step: &Authentication<'_>) -> Result<bytes::Bytes, Halt> {
        backend::authentication(&mut self.out, step);
        self.flush().await?;
        loop {
            match self.incoming().await {
                Ok(Incoming::Message(Frontend::Password(body))) => return Ok(body),
                Ok(Incoming::Message(_)) => return Err(Halt::Nonsense("expected password response")),
                Ok(Incoming::Cancelled) => {}
                Err(Halt::Lost) => return Err(Halt::NoSession),
                Err(other) => return Err(other),
            }
        }
    }

    /// Takes a place among the sessions and tells the client that it may begin.
    async fn begin_session(&mut self) -> Result<(), Halt> {
        if matches!(
            self.cluster.with(self.server, |state| state.login.clone()),
            Login::CloseAt(LoginStage::Authenticated) | Login::HangAt(LoginStage::Authenticated)
        ) {
            self.flush().await?;
            self.stage(LoginStage::Authenticated).await?;
        }
        let application_name = self.settings.get("application_name").unwrap_or_default();
        let pid = (FIRST_PID + self.id as i64) as i32;
        let info = SessionInfo {
            id: self.id,
            server: self.server.clone(),
            pid,
            user: self.user.clone(),
            database: self.database.clone(),
            application_name: application_name.clone(),
            since: self.cluster.now(),
            transaction_status: TransactionStatus::Idle,
            running: None,
            asked_for_servers: false,
        };
        let Ok(key) = self.cluster.begin_session(info) else {
            self.out.clear();
            return Err(self.refuse("53300", "sorry, too many clients already").await);
        };
        let event = Event::Login {
            user: self.user.clone(),
            database: self.database.clone(),
            application_name,
        };
        self.cluster.record(self.server, self.id, event);
        for (name, value) in self.settings.reported() {
            backend::parameter_status(&mut self.out, name, &value);
        }
        self.report_recovery();
        backend::backend_key(&mut self.out, pid, key);
        self.ready().await
    }

    /// Ends the login with a FATAL error.
    async fn refuse(&mut self, sqlstate: &str, message: &str) -> Halt {
        let event = Event::LoginRefused {
            sqlstate: sqlstate.to_owned(),
        };
        self.cluster.record(self.server, self.id, event);
        backend::error(&mut self.out, "FATAL", sqlstate, message);
        match self.flush().await {
            Ok(()) => Halt::Fatal(sqlstate.to_owned()),
            Err(halt) => halt,
        }
    }
}

/// The settings in the startup's `options`: `-c name=value` and `--name=value`, with spaces escaped by a backslash.
fn options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, words.last_mut()) {
            ('\\', Some(word)) => word.extend(characters.next()),
            (space, _) if space.is_whitespace() => words.push(String::new()),
            (other, Some(word)) => word.push(other),
            _ => {}
        }
    }
    words.retain(|word| !word.is_empty());
    let invalid = || SqlError::new("42601", "invalid command-line argument for server process");
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().ok_or_else(invalid)?,
            Some(setting) => setting.to_owned(),
            None => return Err(invalid()),
        };
        let (name, value) = setting.split_once('=').ok_or_else(invalid)?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_a_command_line() {
        let text = r"-c geqo=off --statement-timeout=5s -cTimeZone=Europe/Berlin -c search_path=a,\ b";
        let expected = [
            ("geqo", "off"),
            ("statement_timeout", "5s"),
            ("TimeZone", "Europe/Berlin"),
            ("search_path", "a, b"),
        ];
        assert_eq!(
            options(text).unwrap(),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert!(options("-d").is_err());
        assert!(options("-c").is_err());
        assert!(options("-c novalue").is_err());
    }
}
