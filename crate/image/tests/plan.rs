use super::{golden_bytes, released};
use crate::Error;
use crate::config::VisionConfig;
use crate::image::{Plan, plan, token_types};
use proptest::prelude::*;

/// Columns of the table of section 1.2: canvas, patches (width, height), token grid (rows, columns), tokens, content,
/// offset.
type Row = ((usize, usize), (usize, usize), (usize, usize), usize, (usize, usize), (usize, usize));

fn row(plan: &Plan) -> Row {
    (
        (plan.canvas_width, plan.canvas_height),
        (plan.patch_cols, plan.patch_rows),
        (plan.token_rows, plan.token_cols),
        plan.tokens,
        (plan.content_width, plan.content_height),
        (plan.offset_x, plan.offset_y),
    )
}

/// Every row of the table of section 1.2.
#[test]
#[rustfmt::skip]
fn worked_plans() {
    let enlarged = ((546, 546), (39, 39), (13, 13), 184, (546, 546), (0, 0));
    let table: [((usize, usize), Row); 25] = [
        ((1008, 1008), ((1008, 1008), (72, 72), (24, 24), 602, (1008, 1008), (0, 0))),
        ((1344, 1344), ((1302, 1302), (93, 93), (31, 31), 994, (1302, 1302), (0, 0))),
        ((1920, 1080), ((1708, 966), (122, 69), (23, 41), 968, (1708, 961), (0, 2))),
        ((1080, 1920), ((966, 1708), (69, 122), (41, 23), 986, (961, 1708), (2, 0))),
        ((3840, 2160), ((1708, 966), (122, 69), (23, 41), 968, (1708, 961), (0, 2))),
        ((2048, 2048), ((1302, 1302), (93, 93), (31, 31), 994, (1302, 1302), (0, 0))),
        ((1302, 1302), ((1302, 1302), (93, 93), (31, 31), 994, (1302, 1302), (0, 0))),
        ((1303, 1303), ((1302, 1302), (93, 93), (31, 31), 994, (1302, 1302), (0, 0))),
        ((1000, 1000), ((1008, 1008), (72, 72), (24, 24), 602, (1008, 1008), (0, 0))),
        ((544, 544), enlarged),
        ((224, 224), enlarged),
        ((100, 100), enlarged),
        ((1, 1), enlarged),
        ((448, 336), ((630, 476), (45, 34), (12, 15), 194, (630, 472), (0, 2))),
        ((640, 480), ((644, 490), (46, 35), (12, 16), 206, (644, 483), (0, 4))),
        ((800, 600), ((812, 602), (58, 43), (15, 20), 317, (803, 602), (4, 0))),
        ((1024, 768), ((1036, 770), (74, 55), (19, 25), 496, (1027, 770), (4, 0))),
        ((1280, 720), ((1288, 728), (92, 52), (18, 31), 578, (1288, 724), (0, 2))),
        ((337, 896), ((350, 896), (25, 64), (22, 9), 222, (337, 896), (6, 0))),
        ((4000, 300), ((4004, 308), (286, 22), (8, 96), 778, (4004, 300), (0, 4))),
        ((300, 4000), ((308, 4004), (22, 286), (96, 8), 866, (300, 4004), (4, 0))),
        ((10000, 10), ((17206, 28), (1229, 2), (1, 410), 413, (17206, 17), (0, 6))),
        ((10, 10000), ((28, 17206), (2, 1229), (410, 1), 822, (17, 17206), (6, 0))),
        ((50000, 20), ((42882, 42), (3063, 3), (1, 1021), 1024, (42882, 17), (0, 12))),
        ((20, 50000), ((42, 21462), (3, 1533), (511, 1), 1024, (9, 21462), (16, 0))),
    ];
    for ((width, height), expected) in table {
        assert_eq!(row(&plan(width, height, &released()).unwrap()), expected, "{width}x{height}");
    }
}

/// The 15 plans of the golden file, from another implementation.
#[test]
fn golden_plans() {
    let golden: serde_json::Value = serde_json::from_slice(&golden_bytes("t12/golden.json")).unwrap();
    let cases = golden["image_grids_released_config"].as_array().unwrap();
    assert_eq!(cases.len(), 15);
    for case in cases {
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
        let pair = |key: &str| (number(&case[key][0]), number(&case[key][1]));
        let plan = plan(number(&case["width"]), number(&case["height"]), &released()).unwrap();
        assert_eq!((plan.canvas_width, plan.canvas_height), pair("resized"), "{case}");
        assert_eq!((plan.patch_rows, plan.patch_cols), pair("vit"), "{case}");
        assert_eq!((plan.token_rows, plan.token_cols), pair("llm"), "{case}");
        assert_eq!(plan.tokens, number(&case["tokens"]), "{case}");
    }
}

/// Pitfall P-16: the budget counts START, END and every NEW_LINE. Without them 32x32 cells would fit in 1024.
#[test]
fn budget_counts_every_position() {
    let plan = plan(1344, 1344, &released()).unwrap();
    assert_eq!((plan.token_rows, plan.token_cols), (31, 31));
    assert_eq!(plan.tokens, 31 * 32 + 2);
    assert_eq!(token_types(&plan).len(), plan.tokens);
}

/// A picture of one pixel column: planned while its content has a pixel, refused in words after that.
#[test]
fn thin_pictures() {
    let thin = plan(1, 20_000, &released()).unwrap();
    assert_eq!(row(&thin), ((42, 21462), (3, 1533), (511, 1), 1024, (1, 21462), (20, 0)));
    let wide = plan(20_000, 1, &released()).unwrap();
    assert_eq!((wide.canvas_width, wide.canvas_height, wide.content_height), (42882, 42, 2));
    let message = plan(1, 100_000, &released()).unwrap_err().to_string();
    assert!(message.contains("1x100000 is too thin"), "{message}");
}

#[test]
fn impossible_sizes_are_errors() {
    for (width, height) in [(0, 0), (0, 5), (5, 0), (100_001, 3), (3, usize::MAX), (20_000, 20_000)] {
        assert!(matches!(plan(width, height, &released()), Err(Error::Picture(_))), "{width}x{height}");
    }
}

#[test]
fn ratio_limit_refuses() {
    let mut config = released();
    config.max_wh_ratio = Some(8.0);
    assert_eq!(plan(800, 100, &config).unwrap(), plan(800, 100, &released()).unwrap());
    for (width, height) in [(801, 100), (100, 801)] {
        let message = plan(width, height, &config).unwrap_err().to_string();
        assert!(message.contains("max_wh_ratio: 8"), "{message}");
    }
}

#[test]
fn impossible_parameters_are_errors() {
    type Change = fn(&mut VisionConfig);
    let changes: [(&str, Change); 7] = [
        ("patch_size", |c| c.patch_size = 0),
        ("patch_size", |c| c.patch_size = usize::MAX),
        ("downsample_ratio", |c| c.downsample_ratio = 0),
        ("downsample_ratio", |c| c.downsample_ratio = usize::MAX),
        ("max_image_tokens", |c| c.max_n_token = 3),
        ("max_image_tokens", |c| c.max_n_token = usize::MAX),
        ("min_pixels", |c| c.min_pixels = u64::MAX),
    ];
    for (key, change) in changes {
        let mut config = released();
        change(&mut config);
        let message = plan(100, 100, &config).unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}

proptest! {
    /// Whatever the size and the parameters: a plan that holds together, or an error.
    #[test]
    fn plans_hold_together(
        width in 0usize..120_000,
        height in 0usize..120_000,
        shift in 0u32..17,
        patch_size in 0usize..40,
        downsample_ratio in 0usize..5,
        max_n_token in 0usize..2000,
        min_pixels in 0u64..2_000_000,
    ) {
        let config = VisionConfig { patch_size, downsample_ratio, max_n_token, min_pixels, ..released() };
        for (width, height) in [(width >> shift, height), (width, height >> shift)] {
            if let Ok(plan) = plan(width, height, &config) {
                prop_assert_eq!(plan.canvas_width, plan.patch_cols * patch_size);
                prop_assert_eq!(plan.canvas_height, plan.patch_rows * patch_size);
                prop_assert_eq!(plan.tokens, plan.token_rows * (plan.token_cols + 1) + 2);
                prop_assert!(plan.tokens <= max_n_token);
                prop_assert!(plan.content_width >= 1 && plan.offset_x + plan.content_width <= plan.canvas_width);
                prop_assert!(plan.content_height >= 1 && plan.offset_y + plan.content_height <= plan.canvas_height);
            }
        }
    }

    /// With the released parameters only thin pictures are refused.
    #[test]
    fn released_parameters_take_every_common_size(width in 1usize..10_000, height in 1usize..10_000) {
        let plan = plan(width, height, &released()).unwrap();
        prop_assert!(plan.tokens <= 1024);
        prop_assert_eq!(token_types(&plan).len(), plan.tokens);
    }
}
