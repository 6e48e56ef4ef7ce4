import type { SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame } from "../port.ts";
import { isTold, projectContent } from "./project.ts";
import { type ContentState, type ContentView, initialContent } from "./state.ts";

export interface FrameView extends ContentView {
  /** Which of the two an SSE reader or a line reader wants; both unless it says. */
  readonly only?: "content" | "lifecycle";
}

interface FrameState {
  readonly view: FrameView;
  readonly content: ContentState;
}

/** The SDK's `content` and `lifecycle` events as frames, named by the event that they are. */
export const content: Dialect<FrameState, FrameView> = {
  id: "content",
  memory: "turn",
  initial: (view) => ({ view, content: initialContent(view) }),
  project(state, stored) {
    const last = stored.type === "session.ended" || stored.type === "session.deleted";
    if (!isTold(stored.type)) return { state, frames: NO_FRAMES, last };
    const event = JSON.parse(stored.body) as SluiceEvent;
    const projected = projectContent(state.content, event);
    const frames = projected.told.flatMap((told): Frame[] => {
      if (told.type !== "content" && told.type !== "lifecycle") return [];
      if (state.view.only !== undefined && state.view.only !== told.type) return [];
      return [{ event: told.type, data: JSON.stringify(told.event) }];
    });
    return { state: { ...state, content: projected.state }, frames, last };
  },
};

const NO_FRAMES: readonly Frame[] = [];
