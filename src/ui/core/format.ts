/* oxlint-disable no-control-regex -- control characters are what is removed here */
import type { Usage } from "../../contract/index.ts";

export function toClock(ms: number): string {
  if (ms === 0) return "";
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

export function toDay(ms: number): string {
  return new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

export function toSpan(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function toAgo(ms: number, now: number): string {
  const past = Math.max(0, now - ms);
  if (past < 5_000) return "now";
  if (past < 60_000) return `${Math.floor(past / 1_000)} s ago`;
  if (past < 3_600_000) return `${Math.floor(past / 60_000)} min ago`;
  if (past < 86_400_000) return `${Math.floor(past / 3_600_000)} h ago`;
  return new Date(ms).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

const counts = new Intl.NumberFormat("en");

export function toCount(count: number): string {
  return counts.format(count);
}

export function toBytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(1)} GB`;
}

/** A price; "–" where nothing was reported. */
export function toCost({ cost_usd: cost }: Usage): string {
  if (cost === undefined) return "–";
  return cost < 0.01 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`;
}

export function toTokens(usage: Usage): string {
  const [input, output] = [usage.input_tokens, usage.output_tokens];
  if (input === undefined && output === undefined) return "";
  return `${toShort(input ?? 0)} in · ${toShort(output ?? 0)} out`;
}

export function toShort(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

/** A sign in place of each character that turns or hides text: code would look like another. */
export function toVisible(text: string): string {
  return text.replaceAll(
    /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g,
    "·",
  );
}

/** One line without control and direction characters, which could pretend to be something else. */
export function toLine(text: string, limit = 200): string {
  const clean = text
    .slice(0, limit * 4)
    .replaceAll(/[\u0000-\u001F\u007F\u200E\u200F\u202A-\u202E\u2066-\u2069]+/g, " ")
    .trim();
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean;
}
