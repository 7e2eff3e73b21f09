//! TLS of a server as a test wants it, and the authorities that sign for it: each set of servers has two of its own,
//! one that its clients trust and one that they do not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::USER;
use crate::failure::{During as _, Failure, Outcome};
use crate::programs::Programs;

/// What TLS a server speaks. Starts out as: optional for clients, with a certificate of the set's authority that is
/// good for `localhost` and for the server's own address.
///
/// With SCRAM logins a TLS server always offers `SCRAM-SHA-256-PLUS`, so a client that requires channel binding gets
/// it.
///
/// ```no_run
/// use pgsteer_testkit::{HaSet, Tls};
///
/// let set = HaSet::builder()
///     .configure(0, |spec| spec.tls(Tls::new().required()))              // plain text: 28000
///     .configure(1, |spec| spec.tls(Tls::new().names(["other.test"])))   // a name nobody dials
///     .configure(2, |spec| spec.tls(Tls::new().client_certificate()))
///     .start();
/// let files = set.tls_files();
/// println!("sslrootcert={} sslcert={}", files.ca.display(), files.client_certificate.display());
/// set.node(1).set_tls(Tls::new().expired());
/// set.node(1).set_tls(Tls::new().another_authority());
/// set.node(1).set_tls(None);                                             // answers SSLRequest with N
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tls {
    names: Option<Vec<String>>,
    expired: bool,
    another_authority: bool,
    required: bool,
    client: Client,
}

/// What a client must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Client {
    #[default]
    Nothing,
    CertificateAndPassword,
    CertificateOnly,
}

impl Tls {
    /// The usual: optional, with a good certificate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The names that the certificate is good for, instead of `localhost` and the server's address. A text that is an
    /// IP address becomes an address in the certificate, not a name. None at all is possible too.
    #[must_use]
    pub fn names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.names = Some(names.into_iter().map(str::to_owned).collect());
        self
    }

    /// A certificate that expired years ago.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.expired = true;
        self
    }

    /// A certificate of an authority that is not the one in [`TlsFiles::ca`] but has the same name.
    #[must_use]
    pub fn another_authority(mut self) -> Self {
        self.another_authority = true;
        self
    }

    /// Login rules of `hostssl` only: a client without TLS is refused with 28000.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Wants a certificate of the set's authority for [`USER`], beside the password (`clientcert=verify-full`), and
    /// TLS with it.
    #[must_use]
    pub fn client_certificate(mut self) -> Self {
        self.client = Client::CertificateAndPassword;
        self
    }

    /// Wants such a certificate and no password (`cert`), and TLS with it.
    #[must_use]
    pub fn client_certificate_only(mut self) -> Self {
        self.client = Client::CertificateOnly;
        self
    }

    /// The usual rule for TCP logins.
    pub(crate) fn hba(&self, auth: &str) -> String {
        let kind = if self.required || self.client != Client::Nothing {
            "hostssl"
        } else {
            "host"
        };
        let method = match self.client {
            Client::Nothing => auth.to_owned(),
            Client::CertificateAndPassword => format!("{auth} clientcert=verify-full"),
            Client::CertificateOnly => "cert".to_owned(),
        };
        format!("{kind} all all 127.0.0.0/8 {method}")
    }

    /// The server's settings, for files in this folder.
    pub(crate) fn settings(&self, folder: &Path) -> Vec<(&'static str, String)> {
        let file = |name: &str| folder.join(name).display().to_string();
        vec![
            ("ssl", "on".to_owned()),
            ("ssl_cert_file", file(SERVER_CERTIFICATE)),
            ("ssl_key_file", file(SERVER_KEY)),
            ("ssl_ca_file", file(CLIENTS_AUTHORITY)),
        ]
    }
}

const SERVER_CERTIFICATE: &str = "server.pem";
const SERVER_KEY: &str = "server.key";
const CLIENTS_AUTHORITY: &str = "clients.pem";

/// Files for the clients of a set, PEM all of them. They go away with the set.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The authority that signs the servers' certificates and its clients'.
    pub ca: PathBuf,
    /// The one that signs for [`Tls::another_authority`].
    pub other_ca: PathBuf,
    /// A certificate for [`USER`].
    pub client_certificate: PathBuf,
    /// Its key (PKCS #8).
    pub client_key: PathBuf,
    /// A certificate for [`USER`] that the other authority signed, so that no server takes it.
    pub other_client_certificate: PathBuf,
    /// Its key (PKCS #8).
    pub other_client_key: PathBuf,
}

/// The two authorities of a set.
pub(crate) struct Authority {
    trusted: CertifiedIssuer<'static, KeyPair>,
    other: CertifiedIssuer<'static, KeyPair>,
    pub(crate) files: TlsFiles,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes both, and their clients' files in this folder. The files are the test's own, the folder is the servers'
    /// account's, as whose the watcher removes it.
    pub(crate) fn establish(folder: &Path, programs: &Programs) -> Outcome<Self> {
        fs::create_dir(folder).at("cannot make", folder)?;
        programs.give(folder)?;
        let (trusted, other) = (authority()?, authority()?);
        let files = TlsFiles {
            ca: folder.join("ca.pem"),
            other_ca: folder.join("other-ca.pem"),
            client_certificate: folder.join("client.pem"),
            client_key: folder.join("client.key"),
            other_client_certificate: folder.join("other-client.pem"),
            other_client_key: folder.join("other-client.key"),
        };
        write(&files.ca, &trusted.pem())?;
        write(&files.other_ca, &other.pem())?;
        let (certificate, key) = sign(&trusted, leaf(&[], USER, ExtendedKeyUsagePurpose::ClientAuth)?)?;
        write(&files.client_certificate, &certificate)?;
        write(&files.client_key, &key)?;
        let (certificate, key) = sign(&other, leaf(&[], USER, ExtendedKeyUsagePurpose::ClientAuth)?)?;
        write(&files.other_client_certificate, &certificate)?;
        write(&files.other_client_key, &key)?;
        Ok(Self {
            trusted,
            other,
            files,
        })
    }

    /// Makes a server's files in its folder.
    pub(crate) fn issue_for_server(
        &self,
        tls: &Tls,
        addresses: &[&str],
        folder: &Path,
        programs: &Programs,
    ) -> Outcome<()> {
        let usual = std::iter::once("localhost").chain(addresses.iter().copied());
        let names = match &tls.names {
            Some(names) => names.clone(),
            None => usual.map(str::to_owned).collect(),
        };
        let mut wanted = leaf(&names, "a test's server", ExtendedKeyUsagePurpose::ServerAuth)?;
        if tls.expired {
            wanted.not_after = date_time_ymd(2021, 1, 1);
        }
        let issuer = if tls.another_authority {
            &self.other
        } else {
            &self.trusted
        };
        let (certificate, key) = sign(issuer, wanted)?;
        let trusted = self.trusted.pem();
        for (name, text) in [
            (SERVER_CERTIFICATE, &certificate),
            (SERVER_KEY, &key),
            (CLIENTS_AUTHORITY, &trusted),
        ] {
            let path = folder.join(name);
            write(&path, text)?;
            programs.give(&path)?;
        }
        Ok(())
    }
}

fn authority() -> Outcome<CertifiedIssuer<'static, KeyPair>> {
    let mut wanted = params(&[], "the authority of a test")?;
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(wanted, key()?).map_err(refused)
}

fn leaf(names: &[String], common_name: &str, usage: ExtendedKeyUsagePurpose) -> Outcome<CertificateParams> {
    let mut wanted = params(names, common_name)?;
    wanted.use_authority_key_identifier_extension = true;
    wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    wanted.extended_key_usages = vec![usage];
    Ok(wanted)
}

fn params(names: &[String], common_name: &str) -> Outcome<CertificateParams> {
    let mut params = CertificateParams::new(names).map_err(refused)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    Ok(params)
}

/// Certificate and key as PEM.
fn sign(issuer: &CertifiedIssuer<'static, KeyPair>, wanted: CertificateParams) -> Outcome<(String, String)> {
    let key = key()?;
    let certificate = wanted.signed_by(&key, issuer).map_err(refused)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn key() -> Outcome<KeyPair> {
    KeyPair::generate().map_err(refused)
}

fn refused(error: rcgen::Error) -> Failure {
    Failure::new(format!("cannot make a certificate: {error}"))
}

/// Writes a file that only its owner may read, as servers and clients demand of keys.
fn write(path: &Path, text: &str) -> Outcome<()> {
    fs::write(path, text).at("cannot write", path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).at("cannot protect", path)
}
