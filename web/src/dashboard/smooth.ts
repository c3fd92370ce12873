/** Values averaged with their neighbours (a tenth of the curve), for the strong line of a chart. */
export function smooth(values: number[]): number[] {
  const reach = Math.floor(values.length / 20);
  const sums = [0];
  for (const value of values) sums.push((sums.at(-1) ?? 0) + value);
  return values.map((_, index) => {
    const near = Math.min(reach, index, values.length - 1 - index);
    const [from, to] = [index - near, index + near + 1];
    return ((sums[to] ?? 0) - (sums[from] ?? 0)) / (to - from);
  });
}
