import type { ComponentChildren, JSX } from "preact";
import type { SessionView } from "../core/session-view.ts";
import type { RowView } from "../log/protocol.ts";
import { Icon } from "../parts/icon.tsx";

export interface RowProps {
  readonly view: SessionView;
  readonly row: RowView;
  readonly isOpen: boolean;
}

/** The line of a row that opens and closes its details. */
export function Summary(
  props: RowProps & { readonly children: ComponentChildren; readonly label: string },
): JSX.Element {
  return (
    <button
      class="summary"
      aria-expanded={props.isOpen}
      onClick={() => props.view.toggle(props.row.sequence, !props.isOpen)}
    >
      {props.children}
      <Icon name={props.isOpen ? "down" : "next"} />
    </button>
  );
}
