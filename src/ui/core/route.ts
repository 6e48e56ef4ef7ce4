import { signal } from "@preact/signals";

export const TABS = ["transcript", "timeline", "files", "terminal", "frames", "usage"] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { readonly name: "sessions" }
  | { readonly name: "new" }
  | { readonly name: "server" }
  | { readonly name: "session"; readonly id: string; readonly tab: Tab; readonly event?: number }
  | { readonly name: "unknown"; readonly hash: string };

export const route = signal<Route>(parseRoute(location.hash));

/** Follows the address bar. */
export function watchRoute(): void {
  addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
  });
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  if (parts.length === 0) return { name: "sessions" };
  if (parts.length === 1 && (parts[0] === "new" || parts[0] === "server")) return { name: parts[0] };
  const [kind, id, deeper, sequence] = parts;
  if (kind === "s" && id !== undefined) {
    const tab = TABS.find((name) => name === new URLSearchParams(query).get("tab")) ?? "transcript";
    const decoded = decode(id);
    if (deeper === undefined) return { name: "session", id: decoded, tab };
    if (deeper === "e" && /^[1-9]\d{0,14}$/.test(sequence ?? "") && parts.length === 4)
      return { name: "session", id: decoded, tab, event: Number(sequence) };
  }
  return { name: "unknown", hash };
}

export function toHash(to: Route): string {
  if (to.name === "session") {
    const event = to.event === undefined ? "" : `/e/${to.event}`;
    const tab = to.tab === "transcript" ? "" : `?tab=${to.tab}`;
    return `#/s/${encodeURIComponent(to.id)}${event}${tab}`;
  }
  return to.name === "new" || to.name === "server" ? `#/${to.name}` : "#/";
}

export function go(to: Route, { replace = false } = {}): void {
  const hash = toHash(to);
  if (replace) history.replaceState(null, "", hash);
  else if (location.hash !== hash) history.pushState(null, "", hash);
  route.value = to;
}

/** The link to an event, for the clipboard. */
export function linkTo(session: string, sequence: number): string {
  const { origin, pathname } = location;
  return `${origin}${pathname}${toHash({ name: "session", id: session, tab: "transcript", event: sequence })}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
