package bench

import (
	"math"
	"slices"
	"time"
)

// median of an even number of values is the mean of the two in the middle; of
// none, it is not a number.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the smallest value that p of the values (0 to 1) do not exceed.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(p*float64(len(sorted))))-1))]
}

// over is the value that a pair gives, for each pair.
func over(pairs [][2]float64, value func(first, second float64) float64) []float64 {
	all := make([]float64, len(pairs))
	for i, p := range pairs {
		all[i] = value(p[0], p[1])
	}
	return all
}

func ratio(first, second float64) float64      { return first / second }
func first(first, _ float64) float64           { return first }
func second(_, second float64) float64         { return second }
func difference(first, second float64) float64 { return first - second }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// jainIndex is 1 when all have the same, and 1/n when one has everything (Jain,
// Chiu, Hawe 1984).
func jainIndex(values []float64) float64 {
	var sum, squares float64
	for _, v := range values {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(values)) * squares)
}

// shareError is the largest relative deviation of a value from its weight's share.
func shareError(values, weights []float64) float64 {
	var sum, all, worst float64
	for i := range values {
		sum += values[i]
		all += weights[i]
	}
	for i := range values {
		fair := weights[i] / all
		worst = max(worst, math.Abs(values[i]/sum-fair)/fair)
	}
	return worst
}
