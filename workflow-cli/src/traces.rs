//! The spans of a worker, which go to a collector by OTLP (feature `otlp`).

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Key;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry};
use workflow_sdk::otel::SpanIds;

use crate::{Exit, Failure};

/// The variables of OpenTelemetry that name a collector. `--traces` stands for the second one.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The path of a collector that takes spans.
const PATH: &str = "/v1/traces";

/// How long the collector may take for a batch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Exports spans in batches, from a thread of its own.
pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
}

impl TraceExport {
    /// Prepares the export to this collector or to that of the environment. `None` if neither names
    /// one. `service` is the name of the program, unless the environment has another one. Opens no
    /// connection.
    pub(crate) fn begin(service: &str, collector: Option<&str>) -> Result<Option<Self>, Failure> {
        if collector.is_none() && !ENDPOINTS.into_iter().any(is_set) {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        let exporter = exporter.with_http_client(http_client()?);
        let exporter = match collector {
            Some(collector) => exporter.with_endpoint(endpoint(collector)?),
            None => exporter,
        };
        let exporter = exporter.build().map_err(|error| {
            Failure::usage(format!("traces cannot be exported: {error}"), "mend it, or unset the variables OTEL_*")
        })?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(SpanIds::default())
            .with_resource(resource(service))
            .build();
        Ok(Some(Self { provider }))
    }

    /// Returns the layer that takes the spans of this program.
    pub(crate) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let layer = tracing_opentelemetry::layer::<Registry>().with_tracer(self.provider.tracer("workflow"));
        // The spans around claims are for the lines of the log.
        let filter = Targets::new().with_default(LevelFilter::INFO).with_target("workflow_worker", LevelFilter::OFF);
        layer.with_filter(filter)
    }

    /// Sends the spans that have not been sent, for at most five seconds, and ends the export.
    pub(crate) fn stop(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// Returns `true` if the variable is set and not empty.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Describes this program: by the name of the environment or, without one, by this name.
fn resource(service: &str) -> Resource {
    let detected = Resource::builder().build();
    let name = detected.get(&Key::from_static_str("service.name"));
    if name.is_some_and(|name| !name.as_str().starts_with("unknown_service")) {
        return detected;
    }
    Resource::builder().with_service_name(service.to_owned()).build()
}

/// Returns where a collector takes spans.
fn endpoint(collector: &str) -> Result<String, Failure> {
    let base = collector.trim_end_matches('/');
    if !["http://", "https://"].iter().any(|scheme| base.starts_with(scheme)) {
        return Err(Failure::usage(
            format!("--traces {collector} is not the URL of a collector"),
            "write it as http://localhost:4318; spans are sent by HTTP, not by gRPC",
        ));
    }
    Ok(if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") })
}

/// Returns a client with the certificates that the machine trusts.
fn http_client() -> Result<reqwest::blocking::Client, Failure> {
    let failed = |error: String| Failure::new(Exit::Error, format!("traces cannot be exported: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = reqwest::blocking::Client::builder().timeout(TIMEOUT).tls_backend_preconfigured(tls).build();
    client.map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_its_path_or_without() {
        for collector in ["http://localhost:4318", "http://localhost:4318/", "http://localhost:4318/v1/traces"] {
            assert_eq!(endpoint(collector).unwrap(), "http://localhost:4318/v1/traces");
        }
        assert_eq!(endpoint("https://api.example.com/otlp").unwrap(), "https://api.example.com/otlp/v1/traces");
        for refused in ["localhost:4318", "grpc://localhost:4317", ""] {
            assert_eq!(endpoint(refused).unwrap_err().exit, Exit::Usage, "{refused:?}");
        }
    }
}
