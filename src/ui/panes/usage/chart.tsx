import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Series {
  readonly name: string;
  /** The name of a colour of the theme. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  readonly label: string;
  readonly x: readonly number[];
  readonly series: readonly Series[];
  format(value: number): string;
  formatX(value: number): string;
}

const HEIGHT = 180;
/** The room of the axes. */
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 40, 8, 24];

/** Lines over one axis; the table beside it says the same. */
export function Chart({ label, x, series, format, formatX }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const step = toStep(Math.max(1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const most = step * 4;
  const [first = 0, last = 0] = [x[0], x.at(-1)];
  const toX = (value: number): number =>
    last === first
      ? (LEFT + width - RIGHT) / 2
      : LEFT + ((value - first) / (last - first)) * (width - LEFT - RIGHT);
  const toY = (value: number): number => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);
  const every = Math.max(1, Math.ceil(x.length / Math.max(2, Math.floor(width / 90))));
  return (
    <figure class="chart">
      <div ref={box}>
        <svg width={width} height={HEIGHT} role="img" aria-label={label}>
          {[0, 1, 2, 3, 4].map((line) => (
            <g key={line}>
              <line
                class="chart-grid"
                x1={LEFT}
                x2={width - RIGHT}
                y1={toY(line * step)}
                y2={toY(line * step)}
              />
              <text class="chart-word chart-left" x={LEFT - 8} y={toY(line * step) + 4}>
                {format(line * step)}
              </text>
            </g>
          ))}
          {x.map((value, index) =>
            index % every === 0 ? (
              <text key={index} class="chart-word" x={toX(value)} y={HEIGHT - 6}>
                {formatX(value)}
              </text>
            ) : null,
          )}
          {series.map(({ name, colour, values }) => (
            <g key={name} class={`chart-line chart-${colour}`}>
              <path d={toPath(values, (at) => [toX(x[at] ?? 0), toY(values[at] ?? 0)])} />
              {x.length < 60 &&
                values.map((value, at) =>
                  value === null ? null : <circle key={at} cx={toX(x[at] ?? 0)} cy={toY(value)} r={3} />,
                )}
            </g>
          ))}
        </svg>
      </div>
      <figcaption>
        {series.map(({ name, colour }) => (
          <span key={name} class={`key key-${colour}`}>
            {name}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

/** A round number of which four reach the greatest value. */
function toStep(most: number): number {
  const quarter = most / 4;
  const power = 10 ** Math.floor(Math.log10(quarter));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= quarter) ?? 10;
  return Math.max(1, step * power);
}

/** A line with gaps where a value is not known. */
function toPath(values: readonly (number | null)[], place: (at: number) => [number, number]): string {
  let isDrawn = false;
  return values
    .map((value, at) => {
      const [x, y] = place(at);
      const command = isDrawn ? "L" : "M";
      isDrawn = value !== null;
      return value === null ? "" : `${command}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
