/** The figures of the server at one time. */
export interface Sample {
  readonly time: number;
  readonly values: ReadonlyMap<string, number>;
}

export const KEPT_MS = 15 * 60_000;

/** Reads Prometheus' text format: one value for each name, labels included. */
export function parseMetrics(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const at = line.lastIndexOf(" ");
    const value = Number(line.slice(at + 1));
    if (at > 0 && Number.isFinite(value)) values.set(line.slice(0, at), value);
  }
  return values;
}

/** Adds a sample and drops those that are too old. */
export function keepSample(samples: readonly Sample[], sample: Sample): Sample[] {
  return [...samples, sample].filter(({ time }) => sample.time - time <= KEPT_MS);
}

/** The values of a gauge over time. */
export function gauge(samples: readonly Sample[], name: string): (number | null)[] {
  return samples.map(({ values }) => values.get(name) ?? null);
}

/** The growth of a counter per second. A counter that fell was begun anew by a restart, so that step is not known. */
export function rate(samples: readonly Sample[], name: string): (number | null)[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1];
    const [old, now] = [before?.values.get(name), sample.values.get(name)];
    if (!before || old === undefined || now === undefined || now < old) return null;
    return ((now - old) * 1_000) / Math.max(1, sample.time - before.time);
  });
}

/** The points of a small chart. A value that is not known breaks the line. */
export function toSparkline(
  times: readonly number[],
  values: readonly (number | null)[],
  width: number,
  height: number,
): string {
  const last = times.at(-1) ?? 0;
  const top = Math.max(1e-9, ...values.map((value) => value ?? 0));
  let isDown = false;
  return values
    .map((value, index) => {
      if (value === null) {
        isDown = false;
        return "";
      }
      const x = width - ((last - (times[index] ?? 0)) / KEPT_MS) * width;
      const y = height - 2 - (value / top) * (height - 4);
      const letter = isDown ? "L" : "M";
      isDown = true;
      return `${letter}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
