# SPDX-License-Identifier: Apache-2.0
# The page of reports is part of the library: made of report/page/source by report/page/build.
include(EmbedFiles)
embed_files(stepcast_report page_files ${PROJECT_SOURCE_DIR}/report/page/page.html)
target_link_libraries(stepcast_report PRIVATE ZLIB::ZLIB)
