package main

import (
	"fmt"
	"io"
	"slices"
)

// head is the head of the table.
const head = `| case | Collector | CPU s per million chunks | ratio | chunks/s | ratio | peak MB | ratio |
|---|---|---|---|---|---|---|---|
`

// print prints the rows of a case. Ratios are medians of those to the receiver alone in the same round.
func print(w io.Writer, l load, results []*result) {
	alone := results[0].costs
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %.0f | %.2f | %.0f | %.2f |\n", l.name, r.subject.name,
			r.median(cost.microsPerChunk), r.medianRatio(alone, cost.microsPerChunk),
			r.median(cost.perSecond), r.medianRatio(alone, cost.perSecond),
			r.median(cost.megabytes), r.medianRatio(alone, cost.megabytes))
	}
}

func (c cost) megabytes() float64 { return float64(c.memory) / (1 << 20) }

func (r *result) median(of func(cost) float64) float64 {
	var values []float64
	for _, c := range r.costs {
		values = append(values, of(c))
	}
	return median(values)
}

func (r *result) medianRatio(alone []cost, of func(cost) float64) float64 {
	var ratios []float64
	for round, c := range r.costs {
		ratios = append(ratios, of(c)/of(alone[round]))
	}
	return median(ratios)
}

func median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}
