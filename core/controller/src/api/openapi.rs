//! `/openapi.json`: the description of this port, made from the handlers.

use axum::Json;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{create, error, export, metrics, sessions};

#[derive(OpenApi)]
#[openapi(
    info(title = "Rollgate control", description = "Sessions, rewards and samples."),
    paths(
        create::create,
        sessions::list,
        sessions::show,
        sessions::reward,
        sessions::close,
        sessions::forget,
        export::samples,
        export::turns,
        metrics::metrics,
        openapi,
        super::healthz,
        super::ready::readyz,
    ),
    components(schemas(error::ErrorBody)),
    modifiers(&Token)
)]
struct Described;

struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut Description) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
    }
}

/// This description.
#[utoipa::path(
    get, path = "/openapi.json", tag = "node", security(("token" = [])),
    responses((status = 200, content_type = "application/json"))
)]
pub(super) async fn openapi() -> Json<Description> {
    Json(Described::openapi())
}
