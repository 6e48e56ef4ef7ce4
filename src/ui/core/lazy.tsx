import { signal } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import type { SessionView } from "./session-view.ts";

export type LazyScreen = ComponentType<{ view: SessionView }>;

/** A screen whose code is loaded when it is first shown. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const loaded = signal<ComponentType<Props> | undefined>(undefined);
  const failure = signal("");
  let started = false;
  return function Lazy(props: Props): JSX.Element {
    if (!started) {
      started = true;
      load().then(
        (screen) => (loaded.value = screen),
        (error: unknown) => {
          started = false;
          failure.value = `A part of the page could not be loaded (${String(error)}). Reload the page.`;
        },
      );
    }
    const Screen = loaded.value;
    if (Screen) return <Screen {...props} />;
    return <p class="empty muted">{failure.value || "…"}</p>;
  };
}
