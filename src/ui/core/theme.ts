import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const KEY = "sluice.theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export const theme = signal<Theme>(readTheme());

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = theme.value;
}

/** The next of system, light and dark. */
export function turnTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // A browser without storage keeps the theme until the page is closed.
  }
  applyTheme();
}

function readTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((name) => name === kept) ?? "auto";
  } catch {
    return "auto";
  }
}
