import { signal } from "@preact/signals";

/** The last words for a screen reader: requests, ends and errors, never deltas. */
export const announcement = signal("");
/** A short message at the edge of the screen. */
export const toast = signal<{ readonly text: string; readonly kind: "ok" | "bad" } | undefined>(undefined);

let timer: ReturnType<typeof setTimeout> | undefined;

export function announce(text: string): void {
  // A screen reader reads a changed text only, so a repeated one gets a space.
  announcement.value = announcement.value === text ? `${text} ` : text;
}

export function say(text: string, kind: "ok" | "bad" = "ok"): void {
  toast.value = { text, kind };
  announce(text);
  clearTimeout(timer);
  timer = setTimeout(() => (toast.value = undefined), kind === "ok" ? 3_000 : 10_000);
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say("The browser does not permit copying here.", "bad");
  }
}
