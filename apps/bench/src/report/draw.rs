//! Draws charts as SVG.
//!
//! The colours here identify roles. The style sheet of the page selects them by the attribute in
//! the SVG, and sets the colour for light, dark and print, and the dashes of lines.

use super::chart::{Bar, Chart, Line, Look, Mark, Place};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The colours of Okabe and Ito, which are distinct with any colour vision; without the two palest.
pub(super) const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];

/// The colour of axes and text.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// The colour of reference lines.
const REFERENCE: RGBColor = RGBColor(0x6F, 0x6F, 0x6F);
/// The colour of the grid.
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// The colour of invalid results.
const DOUBT: RGBColor = RGBColor(0xB0, 0x00, 0x20);

/// The format of a chart. Columns of less than 640 pixels show the narrow one. Its letters stay
/// readable there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Wide,
    Narrow,
}

impl Format {
    /// The width in the chart's own units. A page shows two units as a pixel, since plotters
    /// supports only integer units.
    const fn width(self) -> u32 {
        match self {
            Self::Wide => 1240,
            Self::Narrow => 740,
        }
    }

    /// The height of a line chart.
    const fn height(self) -> u32 {
        match self {
            Self::Wide => 640,
            Self::Narrow => 520,
        }
    }
}

/// The height of a bar with the gap after it.
const BAR: u32 = 40;
/// The height of the font.
const LETTERS: u32 = 28;
/// The mean width of a character, with a reserve.
const LETTER: f64 = 15.5;
/// Half the height of a marker.
const MARKER: i32 = 7;
/// The height above the plot, for the title of the vertical axis.
const TOP: u32 = 56;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Writing to a string cannot fail, but plotters returns an error type.
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Returns the chart as an SVG element.
pub(super) fn svg(chart: &Chart, format: Format) -> String {
    let height = if chart.bars.is_empty() { format.height() } else { bars_height(chart) };
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (format.width(), height)).into_drawing_area();
        draw(chart, format, &area).expect("writing into a string succeeds");
        area.present().expect("writing into a string succeeds");
    }
    text
}

/// Returns a look for a legend: a piece of line with a marker, or the mark of invalid results.
pub(super) fn swatch(look: Option<Look>, bar: bool) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (72, 28)).into_drawing_area();
        let drawn = match look {
            None => doubt(&area, (36, 14)),
            Some(look) if bar => {
                area.draw(&Rectangle::new([(14, 4), (58, 24)], colour(look).filled()))
            }
            Some(look) => {
                let line = PathElement::new([(2, 14), (70, 14)], colour(look).stroke_width(4));
                area.draw(&line).and_then(|()| marker(&area, look, (36, 14)))
            }
        };
        drawn.expect("writing into a string succeeds");
        area.present().expect("writing into a string succeeds");
    }
    text
}

fn bars_height(chart: &Chart) -> u32 {
    let rows: usize = chart.bars.iter().map(|(_, bars)| lanes(chart, bars) + 1).sum();
    TOP + 90 + BAR * u32::try_from(rows.min(500)).unwrap_or(500)
}

/// Returns the number of rows of a group of bars.
const fn lanes(chart: &Chart, bars: &[Bar]) -> usize {
    if chart.is_stacked { 1 } else { bars.len() }
}

fn colour(look: Look) -> RGBColor {
    match look {
        Look::Number(number) => COLOURS[number % COLOURS.len()],
        Look::Reference => REFERENCE,
    }
}

fn letters(colour: RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    TextStyle {
        color: colour.to_backend_color(),
        pos: Pos::new(horizontal, vertical),
        ..("sans-serif", LETTERS).into()
    }
}

fn width(text: &str) -> u32 {
    (text.chars().count() as f64 * LETTER) as u32
}

fn draw(chart: &Chart, format: Format, area: &Area<'_>) -> Drawn {
    let (mut x, y) = chart.rulers();
    let names = match (chart.bars.is_empty(), format) {
        (true, _) => y.ticks.iter().map(|&tick| width(&y.label(tick))).max(),
        (false, Format::Wide) => chart.bars.iter().map(|(name, _)| width(name)).max(),
        // The names are above their bars.
        (false, Format::Narrow) => None,
    };
    let left = names.unwrap_or(0).min(format.width() / 2) + 16;
    // Labels that would touch are left out.
    let room = format.width().saturating_sub(left + 110);
    while x.ticks.len() > 2
        && x.ticks.iter().map(|&tick| width(&x.label(tick)) + 24).sum::<u32>() > room
    {
        x.ticks = x.ticks.iter().copied().step_by(2).collect();
    }
    // The label is centred below its tick, which may be at the end of the axis.
    let half_of_last_tick = x.ticks.last().map_or(0, |&tick| width(&x.label(tick)) / 2 + 4);
    let mut context = ChartBuilder::on(area)
        .margin_right(if chart.bars.is_empty() { half_of_last_tick.max(40) } else { 110 })
        .margin_top(TOP)
        .margin_bottom(50)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .set_label_area_size(LabelAreaPosition::Bottom, 52)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let mut mesh = context.configure_mesh();
    // Longer than needed, so that the first labels of both axes do not touch.
    mesh.set_tick_mark_size(LabelAreaPosition::Bottom, 16)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(1))
        .axis_style(INK.stroke_width(2))
        .x_labels(x.ticks.len().max(1))
        .y_labels(y.ticks.len().max(1))
        .x_label_style(letters(INK, HPos::Center, VPos::Top))
        .y_label_style(letters(INK, HPos::Right, VPos::Center));
    if !chart.bars.is_empty() {
        mesh.disable_y_mesh();
    }
    mesh.draw()?;

    let plot = context.plotting_area();
    let at = |point: (f64, f64)| plot.map_coordinate(&point);
    let (across, down) = plot.get_pixel_range();
    let frame = Frame { left: across.start, right: across.end, top: down.start, bottom: down.end };

    let title = letters(INK, HPos::Left, VPos::Top);
    let title_x = if chart.bars.is_empty() { 4 } else { frame.left };
    area.draw(&Text::new(chart.y.title.clone(), (title_x, 6), title))?;
    let title = letters(INK, HPos::Right, VPos::Top);
    area.draw(&Text::new(chart.x.title.clone(), (frame.right, frame.bottom + 64), title))?;

    for line in &chart.lines {
        draw_line(line, area, &at)?;
    }
    draw_bars(chart, format, area, &frame, &at)?;
    draw_marks(chart, format, area, &frame, &at)
}

/// The edges of the plot.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

fn draw_line(line: &Line, area: &Area<'_>, at: &impl Fn((f64, f64)) -> (i32, i32)) -> Drawn {
    let colour = colour(line.look);
    let path: Vec<_> = line.points.iter().map(|&point| at(point)).collect();
    let thickness = if line.look == Look::Reference { 2 } else { 4 };
    area.draw(&PathElement::new(path, colour.stroke_width(thickness)))?;
    for &(x, low, high) in &line.intervals {
        whisker(area, colour, at((x, low)), at((x, high)))?;
    }
    for &point in &line.markers {
        marker(area, line.look, at(point))?;
    }
    for &point in &line.doubtful {
        doubt(area, at(point))?;
        marker(area, line.look, at(point))?;
    }
    Ok(())
}

fn draw_bars(
    chart: &Chart,
    format: Format,
    area: &Area<'_>,
    frame: &Frame,
    at: &impl Fn((f64, f64)) -> (i32, i32),
) -> Drawn {
    let rows: usize = chart.bars.iter().map(|(_, bars)| lanes(chart, bars) + 1).sum();
    let row = f64::from(frame.bottom - frame.top) / rows.max(1) as f64;
    let mut done = if format == Format::Wide { 0.5 } else { 0.9 };
    for (name, bars) in &chart.bars {
        let (side, x, rows) = match format {
            Format::Wide => (HPos::Right, frame.left - 12, lanes(chart, bars) as f64 / 2.0),
            Format::Narrow => (HPos::Left, frame.left, -0.4),
        };
        let y = f64::from(frame.top) + (done + rows) * row;
        area.draw(&Text::new(name.clone(), (x, y as i32), letters(INK, side, VPos::Center)))?;
        if chart.is_stacked {
            draw_stack(bars, area, (done, row, frame.top), at)?;
            done += 2.0;
            continue;
        }
        for bar in bars {
            let top = (f64::from(frame.top) + (done + 0.08) * row) as i32;
            let bottom = (f64::from(frame.top) + (done + 0.92) * row) as i32;
            let middle = (top + bottom) / 2;
            let end = at((bar.value, 0.0)).0;
            let zero = at((0.0, 0.0)).0.max(frame.left);
            let corners = [(zero.min(end), top), (zero.max(end), bottom)];
            area.draw(&Rectangle::new(corners, colour(bar.look).filled()))?;
            let mut behind = end.max(zero);
            if let Some((low, high)) = bar.interval {
                let (low, high) = (at((low, 0.0)).0, at((high, 0.0)).0);
                whisker(area, INK, (low, middle), (high, middle))?;
                behind = behind.max(high);
            }
            if bar.doubtful {
                behind += 24;
                doubt(area, (behind, middle))?;
                behind += 12;
            }
            let style = letters(INK, HPos::Left, VPos::Center);
            let value = super::format::figure(bar.value);
            area.draw(&Text::new(value, (behind + 12, middle), style))?;
            done += 1.0;
        }
        done += 1.0;
    }
    Ok(())
}

/// Draws the parts of one bar, which is `row` high, after `done` rows.
fn draw_stack(
    bars: &[Bar],
    area: &Area<'_>,
    (done, row, top): (f64, f64, i32),
    at: &impl Fn((f64, f64)) -> (i32, i32),
) -> Drawn {
    let y = |share: f64| (f64::from(top) + (done + share) * row) as i32;
    let mut whole = 0.0;
    for bar in bars {
        let begin = at((whole, 0.0)).0;
        whole += bar.value;
        let corners = [(begin, y(0.08)), (at((whole, 0.0)).0, y(0.92))];
        area.draw(&Rectangle::new(corners, colour(bar.look).filled()))?;
    }
    if bars.iter().any(|bar| bar.doubtful) {
        doubt(area, (at((whole, 0.0)).0 + 24, y(0.5)))?;
    }
    Ok(())
}

fn draw_marks(
    chart: &Chart,
    format: Format,
    area: &Area<'_>,
    frame: &Frame,
    at: &impl Fn((f64, f64)) -> (i32, i32),
) -> Drawn {
    let style = REFERENCE.stroke_width(2);
    for (index, mark) in chart.marks.iter().enumerate() {
        match mark.place {
            Place::X(x) => {
                let x = at((x, f64::NAN)).0;
                area.draw(&PathElement::new([(x, frame.top), (x, frame.bottom)], style))?;
                let wide = width(&mark.label) as i32;
                let has_room = x + 8 + wide <= frame.right;
                let (side, x) = if has_room { (HPos::Left, x + 8) } else { (HPos::Right, x - 8) };
                let (left, right) = if has_room { (x, x + wide) } else { (x - wide, x) };
                // Labels of neighbours are on different lines where they have little room.
                let line = if format == Format::Narrow { index as i32 % 2 } else { 0 };
                let high = LETTERS as i32;
                let offset = 4 + line * (high + 4);
                // The label is at the bottom if only the top has a line of the chart.
                let top = frame.top + offset;
                let bottom = frame.bottom - offset - high;
                let is_free = |top: i32| {
                    !chart.lines.iter().any(|line| {
                        let points = line.points.iter().map(|point| at(*point));
                        passes(points, (left, right), (top, top + high))
                    })
                };
                let y = if !is_free(top) && is_free(bottom) { bottom } else { top };
                let beside = letters(INK, side, VPos::Top);
                area.draw(&Text::new(mark.label.clone(), (x, y), beside))?;
            }
            Place::Y(y) => {
                let y = at((f64::NAN, y)).1;
                area.draw(&PathElement::new([(frame.left, y), (frame.right, y)], style))?;
                // The label is under its line if the line before is close.
                let is_close = |other: &Mark| match other.place {
                    Place::Y(other) => at((f64::NAN, other)).1.abs_diff(y) < LETTERS + 8,
                    _ => false,
                };
                let is_under = index.checked_sub(1).is_some_and(|it| is_close(&chart.marks[it]));
                let (side, offset) = if is_under { (VPos::Top, 4) } else { (VPos::Bottom, -4) };
                let label = letters(INK, HPos::Left, side);
                let place = (frame.left + 10, y + offset);
                area.draw(&Text::new(mark.label.clone(), place, label))?;
            }
            Place::Point(x, y) => {
                let (x, y) = at((x, y));
                area.draw(&Circle::new((x, y), 15, INK.stroke_width(3)))?;
                // Labels of neighbours alternate above and below their points.
                let above = (index % 2 == 0) == (y - frame.top > 60) || y > frame.bottom - 60;
                let (vertical, offset) = if above { (VPos::Bottom, -22) } else { (VPos::Top, 22) };
                let half = width(&mark.label) as i32 / 2;
                let x = x.clamp(frame.left + half, (frame.right - half).max(frame.left + half));
                let style = letters(INK, HPos::Center, vertical);
                area.draw(&Text::new(mark.label.clone(), (x, y + offset), style))?;
            }
        }
    }
    Ok(())
}

/// Returns true if the line through these points passes through a rectangle, in pixels.
fn passes(
    points: impl Iterator<Item = (i32, i32)>,
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
) -> bool {
    const STEPS: i32 = 64;
    let is_within = |(x, y): (i32, i32)| (left..=right).contains(&x) && (top..=bottom).contains(&y);
    let mut before = None;
    for point in points {
        let from = before.replace(point).unwrap_or(point);
        let between = |from: i32, to: i32, step| from + (to - from) * step / STEPS;
        let at = |step| (between(from.0, point.0, step), between(from.1, point.1, step));
        if (0..=STEPS).any(|step| is_within(at(step))) {
            return true;
        }
    }
    false
}

/// Draws a line between the ends of an interval, with a bar across each end.
fn whisker(area: &Area<'_>, colour: RGBColor, from: (i32, i32), to: (i32, i32)) -> Drawn {
    let across = |(x, y): (i32, i32)| {
        if from.1 == to.1 { [(x, y - 6), (x, y + 6)] } else { [(x - 6, y), (x + 6, y)] }
    };
    for ends in [[from, to], across(from), across(to)] {
        area.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
    }
    Ok(())
}

/// Filled shapes, so that they are not dashed.
fn marker(area: &Area<'_>, look: Look, (x, y): (i32, i32)) -> Drawn {
    let Look::Number(number) = look else { return Ok(()) };
    let style = colour(look).filled();
    let r = MARKER;
    let shape = |points: &[(i32, i32)]| {
        let points: Vec<_> = points.iter().map(|&(dx, dy)| (x + dx, y + dy)).collect();
        area.draw(&Polygon::new(points, style))
    };
    match number % COLOURS.len() {
        0 => area.draw(&Circle::new((x, y), r, style)),
        1 => shape(&[(-r, -r), (r, -r), (r, r), (-r, r)]),
        2 => shape(&[(0, -r - 2), (r + 1, r), (-r - 1, r)]),
        3 => shape(&[(0, -r - 3), (r + 3, 0), (0, r + 3), (-r - 3, 0)]),
        4 => shape(&[(0, r + 2), (r + 1, -r), (-r - 1, -r)]),
        _ => shape(&[
            (-3, -9),
            (3, -9),
            (3, -3),
            (9, -3),
            (9, 3),
            (3, 3),
            (3, 9),
            (-3, 9),
            (-3, 3),
            (-9, 3),
            (-9, -3),
            (-3, -3),
        ]),
    }
}

/// Draws a cross, large enough that its arms are visible behind a marker.
fn doubt(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    let r = 2 * MARKER - 2;
    for arm in [[(x - r, y - r), (x + r, y + r)], [(x - r, y + r), (x + r, y - r)]] {
        area.draw(&PathElement::new(arm, DOUBT.stroke_width(5)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_passes_through_a_place_between_its_points() {
        let line = || [(0, 0), (100, 100), (200, 100)].into_iter();
        assert!(passes(line(), (40, 60), (40, 60)));
        assert!(passes(line(), (150, 160), (95, 105)));
        assert!(!passes(line(), (40, 60), (70, 90)));
        assert!(!passes([].into_iter(), (0, 9), (0, 9)));
    }
}
