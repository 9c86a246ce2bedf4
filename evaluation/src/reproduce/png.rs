//! Plots as PNG, on a light ground and twice as large as their SVG, with the fonts of the system.

use anyhow::{Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, LazyLock};

/// Pixels of the PNG for one of the SVG.
const SCALE: f32 = 2.0;

/// Fonts for the text of plots, in order; any sans-serif one will do.
const FONTS: [&str; 6] = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Open Sans", "Cantarell", "Roboto"];

/// What text is drawn with; `None` where the system has no font.
fn fonts() -> Option<Arc<fontdb::Database>> {
    static FOUND: LazyLock<Option<Arc<fontdb::Database>>> = LazyLock::new(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        let has = |family: &str| {
            let names = |face: &fontdb::FaceInfo| face.families.iter().any(|(name, _)| name == family);
            fonts.faces().any(names)
        };
        let known = FONTS.iter().find(|family| has(family)).map(|family| family.to_string());
        let any = fonts.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
        let family = known.or(any)?;
        fonts.set_sans_serif_family(family);
        Some(Arc::new(fonts))
    });
    FOUND.clone()
}

/// Whether plots can be drawn: without a font they would have no text.
pub fn is_possible() -> bool {
    fonts().is_some()
}

/// The PNG of an SVG; `None` where the system has no font.
pub fn draw(svg: &str) -> Result<Option<Vec<u8>>> {
    let Some(fontdb) = fonts() else { return Ok(None) };
    let options = Options { fontdb, ..Options::default() };
    // The part of the style for dark grounds is a reader's choice.
    let light = match (svg.find("@media"), svg.find("</style>")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &svg[..from], &svg[to..]),
        _ => svg.to_string(),
    };
    let tree = Tree::from_str(&light, &options).context("cannot read a plot")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a plot has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("a plot has no size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map(Some).context("cannot write a plot as PNG")
}
