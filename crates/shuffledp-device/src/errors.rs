//! Errors with the names that all implementations share.

use std::fmt;

/// What kind of refusal it is: the error's name in the Python code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    BadBatch,
    ClientPolicy,
    Config,
    CountMismatch,
    ExpiredDocument,
    FalseCertificate,
    FalseResult,
    ForeignDocument,
    LogProof,
    LostMessages,
    MalformedDocument,
    Proof,
    ReceiptMissing,
    RoundFailed,
    RoundKey,
    Signature,
    StaleRoster,
    SubmissionClosed,
    TooFewReports,
    Unanswered,
    Usage,
    /// This crate does not implement it: nothing is said about what was given.
    Unsupported,
}

impl Code {
    /// The name, as test vectors and `problem+json` have it.
    pub fn name(self) -> &'static str {
        match self {
            Code::BadBatch => "BadBatchError",
            Code::ClientPolicy => "ClientPolicyRefusal",
            Code::Config => "ConfigError",
            Code::CountMismatch => "CountMismatchError",
            Code::ExpiredDocument => "ExpiredDocumentError",
            Code::FalseCertificate => "FalseCertificateError",
            Code::FalseResult => "FalseResultError",
            Code::ForeignDocument => "ForeignDocumentError",
            Code::LogProof => "LogProofError",
            Code::LostMessages => "LostMessagesError",
            Code::MalformedDocument => "MalformedDocumentError",
            Code::Proof => "ProofError",
            Code::ReceiptMissing => "ReceiptMissingError",
            Code::RoundFailed => "RoundFailed",
            Code::RoundKey => "RoundKeyError",
            Code::Signature => "SignatureError",
            Code::StaleRoster => "StaleRosterError",
            Code::SubmissionClosed => "SubmissionClosedError",
            Code::Unanswered => "UnansweredError",
            Code::TooFewReports => "TooFewReportsError",
            Code::Usage => "UsageError",
            Code::Unsupported => "UnsupportedError",
        }
    }
}

/// An error: its name, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for Refusal {}

/// The outcome of everything that can be refused.
pub type Outcome<T> = Result<T, Refusal>;

/// A refusal of this kind.
pub fn refuse<T>(code: Code, message: impl Into<String>) -> Outcome<T> {
    Err(Refusal { code, message: message.into() })
}

/// A document that is not what its schema says.
pub fn malformed<T>(message: impl Into<String>) -> Outcome<T> {
    refuse(Code::MalformedDocument, message)
}

/// A genuine document of another signer, kind or round.
pub fn foreign<T>(message: impl Into<String>) -> Outcome<T> {
    refuse(Code::ForeignDocument, message)
}
