import type { LifecycleEvent } from "./lifecycle-event.ts";
import type { OutputEvent } from "./output-event.ts";

/** What one event of the log comes to for a program that listens. */
export type Told =
  | { readonly type: "content"; readonly event: OutputEvent }
  | { readonly type: "lifecycle"; readonly event: LifecycleEvent }
  | { readonly type: "stdout" | "stderr"; readonly chunk: string };
