package chart

import "io"

// Bars is a chart of groups of bars: a row for each group, a column for each
// thing that was measured.
type Bars struct {
	Title, About string
	Columns      []string
	Rows         []Row
}

// Row is one group and its cells, one for each column.
type Row struct {
	Name  string
	Cells []Cell
}

// Cell is some bars to compare with each other.
type Cell []Bar

// Bar is one value. Text stands behind it; Number(Value) if it is empty.
type Bar struct {
	Name  string
	Value float64
	Text  string
}

const (
	barHeight = 22.0
	rowHead   = 34.0
	nameWidth = 90.0
	textWidth = 80.0
)

// Write writes the chart as SVG. Each cell has a scale of its own.
func (c *Bars) Write(w io.Writer) error {
	var d drawing
	column := (right - 20 - nameWidth) / float64(max(1, len(c.Columns)))
	for i, name := range c.Columns {
		d.text("panel", 20+nameWidth+float64(i)*column, head, name)
	}
	top := head + 10
	for _, row := range c.Rows {
		d.line("axis", 20, top+8, right, top+8)
		d.text("panel", 20, top+26, row.Name)
		for i, cell := range row.Cells {
			cell.draw(&d, 20+nameWidth+float64(i)*column, top+rowHead, column-textWidth)
		}
		if len(row.Cells) > 0 {
			for i, bar := range row.Cells[0] {
				d.text("end", 20+nameWidth-8, top+rowHead+float64(i)*barHeight+15, bar.Name)
			}
			top += barHeight * float64(len(row.Cells[0]))
		}
		top += rowHead + 12
	}
	return d.write(w, width, int(top)+20, c.Title, c.About)
}

func (c Cell) draw(d *drawing, x, y, room float64) {
	most := 0.0
	for _, b := range c {
		most = max(most, b.Value)
	}
	for i, b := range c {
		length := 0.0
		if most > 0 {
			length = max(0, room*b.Value/most)
		}
		at := y + float64(i)*barHeight
		d.box(colors[i%len(colors)], x, at+3, max(1, length), barHeight-6)
		text := b.Text
		if text == "" {
			text = Number(b.Value)
		}
		d.text("", x+max(1, length)+5, at+15, text)
	}
}
