import "uplot/dist/uPlot.min.css";
import "../styles/page.css";
import { render } from "preact";
import { RunList } from "../shared/run-list";
import { root, runOfAddress } from "../shared/place";
import { Dashboard } from "./dashboard";

const place = document.getElementById("page");
const run = runOfAddress(location.pathname, root.pathname);
if (place) {
  place.textContent = "";
  render(run ? <Dashboard run={run} /> : <RunList to="/dashboard" />, place);
}
