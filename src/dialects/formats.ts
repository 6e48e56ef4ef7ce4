import type { FormatName } from "../contract/index.ts";
import { agUi } from "./ag-ui/index.ts";
import { anthropic } from "./anthropic/project.ts";
import { ndjson } from "./ndjson/index.ts";
import type { Dialect, Frame } from "./port.ts";
import { content } from "./sdk/index.ts";
import { universal, type UniversalView } from "./universal/project.ts";

/** A dialect with the views in which its frames are shown to readers of a whole session. */
export interface Format {
  readonly dialect: Dialect<unknown, unknown>;
  /** The view of the dialect's own HTTP stream. */
  toView(options: FormatOptions): unknown;
  /** The view of a command that prints the log. */
  readonly printed: unknown;
}

export interface FormatOptions {
  /** The session's agent. A projection that does not begin with the log's first event cannot know it. */
  readonly agent?: string;
  /** The view of the format `universal`. */
  readonly universal?: UniversalView;
}

const CONTENT = { only: "content" } as const;
const LIFECYCLE = { only: "lifecycle" } as const;

/** Every format of `as=` and `--as`, for the server, the command line and pages. */
export const FORMATS: Readonly<Record<FormatName, Format>> = {
  universal: defineFormat(universal, {
    toView: (options) => options.universal ?? {},
    printed: { extensions: true },
  }),
  // A stream shows an input that waits, and again when it is processed. In a list each event stands once.
  anthropic: defineFormat(anthropic, { toView: () => ({}), printed: { list: true } }),
  "ag-ui": defineFormat(agUi, {
    toView: toAgent,
    printed: {},
  }),
  ndjson: defineFormat(ndjson, { toView: () => ({}), printed: {} }),
  content: defineFormat(content, {
    toView: (options) => ({ ...CONTENT, ...toAgent(options) }),
    printed: CONTENT,
  }),
  lifecycle: defineFormat(content, {
    toView: (options) => ({ ...LIFECYCLE, ...toAgent(options) }),
    printed: LIFECYCLE,
  }),
};

function toAgent({ agent }: FormatOptions): { agent?: string } {
  return agent === undefined ? {} : { agent };
}

function defineFormat<State, View>(
  dialect: Dialect<State, View>,
  views: { toView: (options: FormatOptions) => View; printed: View },
): Format {
  return { dialect, ...views };
}

/** The position of a reader between the frames of one event: it has seen the first `frames` of them. */
export interface SeenFrames {
  readonly sequence: number;
  readonly frames: number;
}

interface NumberedView {
  readonly view: unknown;
  readonly seen?: SeenFrames;
}

/**
 * A dialect whose frames are numbered by the log: the last frame of event N has the id `N`, which the stream adds. An
 * earlier frame of the event has `N:k`, with k from 1. A reader can resume after any frame.
 */
export function toNumbered(dialect: Dialect<unknown, unknown>): Dialect<unknown, NumberedView> {
  return {
    id: `${dialect.id}:numbered`,
    memory: dialect.memory,
    wantsRaw: ({ view }) => dialect.wantsRaw?.(view) ?? false,
    initial: ({ view, seen }) => ({ seen, inner: dialect.initial(view) }),
    project(state, event) {
      const { seen, inner } = state as { seen?: SeenFrames; inner: unknown };
      const projected = dialect.project(inner, event);
      const count = projected.frames.length;
      const frames = projected.frames.map((frame, index): Frame => {
        const { id: _, ...rest } = frame;
        return index === count - 1 ? rest : { ...rest, id: `${event.sequence}:${index + 1}` };
      });
      return {
        ...projected,
        state: { seen, inner: projected.state },
        frames: seen?.sequence === event.sequence ? frames.slice(seen.frames) : frames,
      };
    },
  };
}
