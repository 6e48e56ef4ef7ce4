import type { JSX } from "preact";

const PATHS = {
  back: "M10 3 5 8l5 5",
  next: "m6 3 5 5-5 5",
  down: "m3 6 5 5 5-5",
  play: "M5 3v10l8-5z",
  pause: "M5 3v10M11 3v10",
  first: "M12 3 7 8l5 5M4 3v10",
  last: "m4 3 5 5-5 5M12 3v10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm4-1 3 3",
  plus: "M8 3v10M3 8h10",
  close: "m4 4 8 8m0-8-8 8",
  copy: "M6 6h7v7H6zM3 10V3h7",
  link: "M7 9a3 3 0 0 0 4 0l2-2a3 3 0 0 0-4-4L8 4M9 7a3 3 0 0 0-4 0L3 9a3 3 0 0 0 4 4l1-1",
  fork: "M5 3v10M5 8c6 0 6-1 6-5",
  flag: "M4 14V3h8l-2 3 2 3H4",
  stop: "M4 4h8v8H4z",
  folder: "M2 4h4l2 2h6v7H2z",
  file: "M4 2h5l3 3v9H4z",
  gear: "M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4Zm0-8v2m0 8v2M2 8h2m8 0h2M4 4l1 1m6 6 1 1m0-8-1 1m-6 6-1 1",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v2m0 10v2M1 8h2m10 0h2",
  pulse: "M1 8h3l2-5 3 10 2-5h4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
